"""The texts of one request: n for each prompt, made at the same time."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from layers.serving.api.backend import Backend
from layers.serving.api.errors import ApiError, too_long
from layers.serving.api.metrics import Metrics
from layers.serving.messages import SamplingParams, ShownLogprobs, TextDelta

# Each with the index of its text.
Deltas: TypeAlias = AsyncGenerator[tuple[int, TextDelta], None]

_SEED_BITS = (1 << 63) - 1


@dataclass(frozen=True)
class Job:
    """One request, read and tokenised.

    Attributes:
        prompts: ids of each.
        n: texts for each prompt.
        params: of the first text of each prompt; the others have seeds of their own.
        stops: stop strings.
        began: when it came, before it was tokenised, by `time.monotonic`.
    """

    prompts: list[list[int]]
    n: int
    params: SamplingParams
    stops: list[str]
    began: float

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts, each counted once."""
        return sum(len(prompt) for prompt in self.prompts)


@dataclass
class Finished:
    """One text, whole."""

    text: str = ""
    tokens: int = 0
    logprobs: list[ShownLogprobs] = field(default_factory=list)
    finish: str = ""


def answer_length(prompt: Sequence[int], wanted: int | None, backend: Backend, param: str) -> int:
    """Tokens of the answer at most; without a wish as many as the context leaves.

    Raises:
        ApiError: 400, no token at all, too many, or one that the vocabulary does not have.
    """
    if not prompt:
        raise ApiError(
            400, "a prompt without any token, wanted text that the tokenizer knows", param=param
        )
    most = backend.context_length
    if len(prompt) + (wanted or 1) > most:
        raise too_long(len(prompt), wanted, most, param)
    wrong = max(prompt)
    if wrong >= backend.vocab_size:
        raise ApiError(
            400,
            f"token {wrong} in the prompt, wanted less than the vocabulary's {backend.vocab_size}",
            param=param,
        )
    return wanted or most - len(prompt)


def new_seed(seed: int | None) -> int:
    """A seed of 63 bits: the request's, or any."""
    return secrets.randbits(63) if seed is None else seed & _SEED_BITS


async def run(backend: Backend, metrics: Metrics, job: Job) -> Deltas:
    """The deltas of all texts as they come, each with its text's index.

    Raises:
        ApiError: of `Backend.generate`.
    """
    queue: asyncio.Queue[tuple[int, TextDelta | BaseException]] = asyncio.Queue()
    tasks = []
    for index, (prompt, number) in enumerate((p, k) for p in job.prompts for k in range(job.n)):
        params = _with_seed(job.params, number)
        tasks.append(asyncio.create_task(_pump(backend, prompt, params, job.stops, index, queue)))
    left = len(tasks)
    seen: set[int] = set()
    try:
        while left:
            index, delta = await queue.get()
            if isinstance(delta, BaseException):
                raise delta
            if index not in seen:
                seen.add(index)
                metrics.first_token.observe(time.monotonic() - job.began)
            left -= bool(delta.finish)
            yield index, delta
        metrics.seconds.observe(time.monotonic() - job.began)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    backend: Backend,
    prompt: list[int],
    params: SamplingParams,
    stops: list[str],
    index: int,
    queue: asyncio.Queue[tuple[int, TextDelta | BaseException]],
) -> None:
    try:
        async with aclosing(backend.generate(prompt, params, stops)) as deltas:
            async for delta in deltas:
                queue.put_nowait((index, delta))
    except Exception as error:  # of any kind: who waits for the text must not wait for ever
        queue.put_nowait((index, error))


def _with_seed(params: SamplingParams, number: int) -> SamplingParams:
    # Odd and large, so that a request's seeds are not those of another with the next seed.
    seed = (params.seed + number * 0x9E3779B97F4A7C15) & _SEED_BITS
    return msgspec.structs.replace(params, seed=seed)


async def collect(deltas: Deltas, count: int) -> list[Finished]:
    """All texts, whole."""
    texts = [Finished() for _ in range(count)]
    async for index, delta in deltas:
        text = texts[index]
        text.text += delta.text
        text.tokens += delta.tokens
        text.logprobs += delta.logprobs
        text.finish = delta.finish
    return texts
