"""What is refused at the limit, and what a client that goes away leaves: room for others."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import Server, running_server

OPTIONS = ("--loader", LOADER, "--torch-threads", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "known", max_position=4096)


def client_of(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=server.url, timeout=120, trust_env=False, limits=limits)


async def read_stream(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    async with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        async for _ in answer.aiter_lines():
            pass


async def read_whole(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    await client.post("/v1/completions", json=body)


def test_beyond_the_limit_there_is_a_429_and_room_again_afterwards(folder: Path) -> None:
    with running_server(folder, *OPTIONS, "--max-requests", "3") as server:

        async def flood() -> list[httpx.Response]:
            body = {"model": "known", "prompt": "x", "max_tokens": 300, "ignore_eos": True}
            async with client_of(server) as client:
                return await asyncio.gather(
                    *[client.post("/v1/completions", json=body) for _ in range(12)]
                )

        answers = asyncio.run(flood())
        refused = [answer for answer in answers if answer.status_code == 429]
        taken = [answer for answer in answers if answer.status_code == 200]
        assert len(refused) + len(taken) == 12
        assert len(taken) >= 3 and refused
        for answer in refused:
            assert answer.headers["retry-after"] == "1"
            error = answer.json()["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "overloaded")
            assert error["message"].startswith(
                "the server is working on as many texts as it takes, 3"
            )
        for answer in taken:
            assert answer.json()["usage"]["completion_tokens"] == 300
        with server.client() as client:
            body = {"model": "known", "prompt": "x", "max_tokens": 2, "n": 3}
            assert client.post("/v1/completions", json=body).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_slots(folder: Path, stream: bool) -> None:
    """Its texts would have gone on for thousands of tokens, each longer than the one before."""
    body = {"model": "known", "prompt": "x", "max_tokens": 4000, "n": 4, "ignore_eos": True}
    with running_server(folder, *OPTIONS, "--max-requests", "4") as server:

        async def go_away() -> None:
            async with client_of(server) as client:
                ask = read_stream if stream else read_whole
                request = asyncio.create_task(ask(client, body))
                while not server.metric("plumbline_scheduler_running"):
                    assert not request.done(), request.result()
                    await asyncio.sleep(0.05)
                request.cancel()
                await asyncio.gather(request, return_exceptions=True)

        asyncio.run(go_away())
        server.wait_for("plumbline_requests_in_flight", 0)
        server.wait_for("plumbline_scheduler_running", 0)
        server.wait_for("plumbline_kv_pages_used", 0)
        assert server.metric("plumbline_generated_tokens_total") < 4 * 4000
        gone = server.metric('plumbline_requests_total{endpoint="/v1/completions",status="499"}')
        assert gone == 1
        with server.client() as client:
            short = {**body, "max_tokens": 2}
            assert client.post("/v1/completions", json=short).status_code == 200
