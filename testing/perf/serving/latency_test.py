"""Seconds of one request at a time through the whole server, against a bare loop of one text."""

import statistics
import time

import httpx
from tokenizers import Tokenizer

from layers.models.load import load_model
from testing.e2e.checkpoints.folders import folder
from testing.e2e.smokes.figures import Figures
from testing.e2e.smokes.seed import some_problems
from testing.e2e.tasks.problems import Problem
from testing.harness.device import device, pool
from testing.perf.serving.bare import BareLoop
from testing.serving.server import Server, running_server

REQUESTS, TOKENS = 24, 24


def _seconds(client: httpx.Client, server: Server, problem: Problem) -> float:
    body = {"model": server.model, "prompt": problem.prompt, "max_tokens": TOKENS}
    began = time.perf_counter()
    said = client.post("/v1/completions", json=body | {"temperature": 0, "ignore_eos": True})
    taken = time.perf_counter() - began
    assert said.status_code == 200, said.text
    assert said.json()["usage"]["completion_tokens"] == TOKENS
    return taken


def test_a_request_takes_little_more_than_its_forwards() -> None:
    place = folder("dense")
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    bare = BareLoop(load_model(place, device=device()))
    problems = some_problems(REQUESTS)
    kind = "cpu" if pool() == "cpu" else "cuda"
    arguments = ("--device", kind, "--torch-threads", "1", "--kv-tokens", "4096")
    seen: list[tuple[float, float]] = []
    with (
        running_server(folder("dense"), *arguments, seconds=120) as server,
        server.client(timeout=60) as client,
    ):
        _seconds(client, server, problems[0])
        bare.run([tokenizer.encode(problems[0].prompt).ids], TOKENS)
        for problem in problems:
            # One right after the other: what slows the machine slows both.
            course = bare.run([tokenizer.encode(problem.prompt).ids], TOKENS)
            seen.append((_seconds(client, server, problem), course.seconds))
    figures = Figures("latency", "dense", assertions=1)
    figures.seen["milliseconds_a_token"] = 1e3 * statistics.median(s for s, _ in seen) / TOKENS
    figures.ratio("seconds_over_bare_loop", statistics.median(s / b for s, b in seen))
    figures.finish()
