"""Many requests at once: no token is lost, no memory kept, nothing taken beyond the limit."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from layers.serving.messages import SamplingParams
from testing.serving import reference
from testing.serving.known_model import KnownConfig
from testing.serving.model_folder import LOADER, byte_tokenizer, write_folder
from testing.serving.server import Server, running_server

IN_FLIGHT = 200
TOKENIZER = byte_tokenizer()
CONFIG = KnownConfig(vocab_size=TOKENIZER.get_vocab_size())
OPTIONS = ("--loader", LOADER, "--torch-threads", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "known", max_position=4096)


def client_of(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=server.url, timeout=120, trust_env=False, limits=limits)


def job(number: int) -> tuple[str, dict[str, Any]]:
    rng = random.Random(number)
    prompt = "A common beginning of some length. " * rng.randrange(3) + f"{number}"
    fields = {"max_tokens": rng.randrange(4, 24), "seed": number, "ignore_eos": True}
    return prompt, {**fields, "temperature": rng.choice([0, 1])}


async def ask(client: httpx.AsyncClient, number: int) -> None:
    """A request whose answer is known; every other one streamed."""
    prompt, fields = job(number)
    body = {"model": "known", "prompt": prompt, **fields}
    if number % 2:
        answer = await client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        text = answer.json()["choices"][0]["text"]
        usage = answer.json()["usage"]
    else:
        text, usage = await streamed(client, body)
    ids = TOKENIZER.encode(prompt).ids
    want = reference.generate(ids, SamplingParams(**fields), CONFIG)
    assert text == TOKENIZER.decode(want.ids), f"request {number}"
    assert usage["completion_tokens"] == len(want.ids)


async def streamed(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, dict[str, int]]:
    text = ""
    usage: dict[str, int] = {}
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                text += "".join(choice["text"] for choice in event["choices"])
                usage = event["usage"] or {}
    return text, usage


async def rounds(server: Server, count: int, first: int) -> None:
    """`count` times as many requests at once as may be in flight."""
    async with client_of(server) as client:
        for start in range(first, first + count * IN_FLIGHT, IN_FLIGHT):
            await asyncio.gather(*[ask(client, start + k) for k in range(IN_FLIGHT)])


def memory(server: Server) -> dict[str, int]:
    """Bytes that each process has for itself."""
    processes = {**server.workers(), "server": psutil.Process(server.process.pid)}
    return {name: process.memory_full_info().uss for name, process in processes.items()}


def test_200_in_flight_lose_no_token_and_leave_no_memory(folder: Path) -> None:
    options = ("--tokenizer-workers", "2", "--detokenizer-workers", "2", "--kv-tokens", "8192")
    with running_server(folder, *OPTIONS, *options, "--max-requests", "200") as server:
        # Caches fill, libraries take their buffers.
        asyncio.run(rounds(server, 1, first=0))
        before = memory(server)
        asyncio.run(rounds(server, 2, first=1000))
        grown = {name: now - before[name] for name, now in memory(server).items()}
        assert server.metric("plumbline_requests_in_flight") == 0
        assert server.metric("plumbline_kv_pages_used") == 0
        asked = server.metric('plumbline_requests_total{endpoint="/v1/completions",status="200"}')
        assert asked == 3 * IN_FLIGHT
    # A text of 20 tokens kept by mistake, with its queue or its decoder, is 4 KB or more: 400 of
    # them more than 1.6 MB. Allocators that grow by their arenas stay below that.
    assert max(grown.values()) < 1.6e6, grown
