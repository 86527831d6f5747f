"""Asks a server many problems at a time, and keeps what came back and when."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from testing.e2e.tasks.problems import Problem

MAX_TOKENS = 48
"""More than any answer of the tasks has."""

_SECONDS = 120


@dataclass
class Answer:
    """What came back.

    text: of the whole answer, its parts joined.
    arrivals: when each part with text in it came, seconds after the question was sent.
    parts: their texts.
    """

    problem: Problem
    text: str = ""
    finish_reason: str | None = None
    arrivals: list[float] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether the text is the problem's answer, to the last byte, and ended by itself."""
        return self.text == self.problem.answer and self.finish_reason == "stop"

    @property
    def gaps(self) -> list[float]:
        """Seconds between parts."""
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]


def ask_all(
    url: str, model: str, problems: Sequence[Problem], *, stream: bool, at_a_time: int = 100
) -> list[Answer]:
    """The answers, in the problems' order, by greedy decoding.

    url: "http://host:port".
    stream: whether answers come token by token.
    at_a_time: requests in flight.

    Raises:
        RuntimeError: the server answered with an error, which the message quotes.
    """
    return asyncio.run(_ask_all(url, model, problems, stream, at_a_time))


async def _ask_all(
    url: str, model: str, problems: Sequence[Problem], stream: bool, at_a_time: int
) -> list[Answer]:
    limits = httpx.Limits(max_connections=at_a_time, max_keepalive_connections=at_a_time)
    turns = asyncio.Semaphore(at_a_time)
    async with httpx.AsyncClient(base_url=url, timeout=_SECONDS, limits=limits) as client:

        async def one(problem: Problem) -> Answer:
            async with turns:
                return await _ask(client, model, problem, stream)

        return list(await asyncio.gather(*(one(problem) for problem in problems)))


async def _ask(client: httpx.AsyncClient, model: str, problem: Problem, stream: bool) -> Answer:
    body = {
        "model": model,
        "prompt": problem.prompt,
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": stream,
    }
    answer, began = Answer(problem), time.perf_counter()
    async with client.stream("POST", "/v1/completions", json=body) as response:
        if response.status_code != 200:
            said = (await response.aread()).decode()
            raise RuntimeError(f"'{problem.prompt}' got status {response.status_code}: {said}")
        if not stream:
            _keep(answer, json.loads(await response.aread()), time.perf_counter() - began)
        else:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    event = json.loads(line.removeprefix("data: "))
                    _keep(answer, event, time.perf_counter() - began)
    answer.seconds = time.perf_counter() - began
    return answer


def _keep(answer: Answer, event: dict, after: float) -> None:  # type: ignore[type-arg]
    if "error" in event:
        raise RuntimeError(f"'{answer.problem.prompt}' got an error: {event['error']}")
    for choice in event["choices"]:
        if choice["text"]:
            answer.parts.append(choice["text"])
            answer.arrivals.append(after)
            answer.text += choice["text"]
        answer.finish_reason = choice["finish_reason"] or answer.finish_reason
