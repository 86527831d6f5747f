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
MOST_ROUNDS = 12
# Bytes for each text: a queue, a decoder or a request that is forgotten to be dropped has more.
KEPT = 500
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
    # The same prompts in each round: the tokenizer remembers those that it has seen.
    place = number % IN_FLIGHT
    prompt = "A common beginning of some length. " * (place % 3) + f"{place}"
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


async def one_round(server: Server, first: int) -> None:
    """As many requests at once as may be in flight."""
    async with client_of(server) as client:
        await asyncio.gather(*[ask(client, first + number) for number in range(IN_FLIGHT)])


def memory(server: Server) -> dict[str, int]:
    """Bytes that each process has for itself."""
    processes = {**server.workers(), "server": psutil.Process(server.process.pid)}
    return {name: process.memory_full_info().uss for name, process in processes.items()}


def test_200_in_flight_lose_no_token_and_leave_no_memory(folder: Path) -> None:
    options = (*OPTIONS, "--kv-tokens", "8192", "--max-requests", str(IN_FLIGHT))
    with running_server(folder, *options) as server:
        before = memory(server)
        growing = set(before)
        asked = 0
        # Caches fill and arenas grow, and then stop; what is kept by mistake grows in each round.
        while growing and asked < MOST_ROUNDS:
            asyncio.run(one_round(server, first=asked * IN_FLIGHT))
            asked += 1
            now = memory(server)
            growing -= {name for name in now if now[name] - before[name] < KEPT * IN_FLIGHT}
            before = now
        assert server.metric("plumbline_requests_in_flight") == 0
        assert server.metric("plumbline_kv_pages_used") == 0
        done = server.metric('plumbline_requests_total{endpoint="/v1/completions",status="200"}')
        assert done == asked * IN_FLIGHT
    assert not growing, f"memory of {growing} grew in each of {asked} rounds"
