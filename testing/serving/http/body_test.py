"""A body beyond the limit is refused with 413, however it comes, and before it is in memory."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from layers.serving.api.body import LimitBody
from layers.serving.options import parse
from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import Server, running_server

MOST = 4096
OPTIONS = ("--loader", LOADER, "--torch-threads", "1", "--max-body-bytes", str(MOST))
PART = b"x" * 2**16
LONG = 2**27


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_folder(tmp_path_factory.mktemp("models") / "known", max_position=5000)
    with running_server(folder, *OPTIONS) as running:
        yield running


def body_of(size: int) -> bytes:
    """A request of so many bytes."""
    fields: dict[str, Any] = {"model": "known", "max_tokens": 1, "prompt": ""}
    return json.dumps({**fields, "prompt": "x" * (size - len(json.dumps(fields)))}).encode()


def chunks(body: bytes) -> Iterator[bytes]:
    """Without a length in advance."""
    yield from (body[i : i + 1000] for i in range(0, len(body), 1000))


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_the_limit_is_the_last_size_that_is_taken(server: Server, is_chunked: bool) -> None:
    for size, status in ((MOST, 200), (MOST + 1, 413), (MOST, 200)):
        body = body_of(size)
        with server.client() as client:
            answer = client.post(
                "/v1/completions",
                content=chunks(body) if is_chunked else body,
                headers={"content-type": "application/json"},
            )
        assert answer.status_code == status, answer.text
        if status == 413:
            assert answer.headers["content-type"] == "application/json"
            assert answer.json()["error"] == {
                "message": answer.json()["error"]["message"],
                "type": "invalid_request_error",
                "param": None,
                "code": "request_too_large",
            }
            assert f"longer than {MOST} bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_a_long_body_is_not_kept(server: Server, is_chunked: bool) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_full_info().uss
    seen: list[int] = []

    def sent() -> Iterator[bytes]:
        for number in range(LONG // len(PART)):
            yield PART
            if number % 100 == 99:
                seen.append(process.memory_full_info().uss - before)

    headers = {} if is_chunked else {"content-length": str(LONG)}
    with server.client() as client:
        answer = client.post("/v1/completions", content=sent(), headers=headers)
    assert answer.status_code == 413
    assert seen and max(seen) < LONG / 4
    assert server.metric('plumbline_requests_total{endpoint="/v1/completions",status="413"}') > 0


def test_a_length_that_is_too_large_is_refused_before_a_byte_was_sent(server: Server) -> None:
    """As a client finds out that waits for "100 Continue"."""
    host, port = httpx.URL(server.url).host, httpx.URL(server.url).port

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {MOST + 1}\r\n"
        writer.write(f"{head}expect: 100-continue\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.readline(), 30)
        writer.close()
        return answer

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_goes_away_while_it_sends_is_forgotten() -> None:
    asked: list[str] = []

    async def app(*_: Any) -> None:
        asked.append("asked")

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(_: Any) -> None:
        asked.append("answered")

    begun: dict[str, Any] = {"type": "http.request", "body": b"x", "more_body": True}
    messages = iter([begun, {"type": "http.disconnect"}])
    asyncio.run(LimitBody(app, MOST)({"type": "http", "headers": []}, receive, send))
    assert not asked


def test_the_default_holds_what_a_context_can_be(tmp_path: Path) -> None:
    """A million tokens, written as numbers."""
    assert parse(["--model", str(tmp_path)]).max_body_bytes >= len(json.dumps([100_000] * 10**6))
