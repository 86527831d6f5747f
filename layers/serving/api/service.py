"""What the routes share: the workers, the model's name, and the way from a request to its texts."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from layers.serving.api.backend import Backend
from layers.serving.api.choices import Deltas, Job, answer_length, new_seed, run
from layers.serving.api.errors import unknown_model
from layers.serving.api.metrics import Metrics
from layers.serving.api.protocol import ChatRequest, CompletionRequest
from layers.serving.messages import SamplingParams

# OpenAI's default for completions; a chat goes on to the end of the context.
_COMPLETION_TOKENS = 16


@dataclass(frozen=True)
class Service:
    """One server's parts.

    Attributes:
        model: what requests call it.
        created: when it was started, in seconds of the epoch.
    """

    backend: Backend
    metrics: Metrics
    model: str
    created: int = field(default_factory=lambda: int(time.time()))

    def check_model(self, name: str) -> None:
        """Raises ApiError (404) for another model's name."""
        if name != self.model:
            raise unknown_model(name, self.model)

    @contextmanager
    def admitted(self, count: int) -> Iterator[None]:
        """Room for `count` texts, or ApiError (429, 503)."""
        self.backend.admit(count)
        try:
            yield
        finally:
            self.backend.leave(count)

    async def completion_job(self, request: CompletionRequest) -> Job:
        """Tokenises the prompts; raises ApiError (400)."""
        began = time.monotonic()
        prompts = await asyncio.gather(
            *[
                self.backend.tokenize(text=prompt) if isinstance(prompt, str) else _given(prompt)
                for prompt in request.prompts
            ]
        )
        wanted = request.max_tokens or _COMPLETION_TOKENS
        for prompt in prompts:
            answer_length(prompt, wanted, self.backend, "prompt")
        params = _params(request, wanted, request.logprobs)
        return Job(list(prompts), request.n or 1, params, request.stops, began)

    async def chat_job(self, request: ChatRequest) -> Job:
        """Renders and tokenises the messages; raises ApiError (400)."""
        began = time.monotonic()
        messages = [{"role": m.role, "content": m.text} for m in request.messages]
        prompt = await self.backend.tokenize(messages=messages)
        length = answer_length(prompt, request.most_tokens, self.backend, "messages")
        logprobs = (request.top_logprobs or 0) if request.logprobs else None
        params = _params(request, length, logprobs)
        return Job([prompt], request.n or 1, params, request.stops, began)

    def run(self, job: Job) -> Deltas:
        """As `choices.run`."""
        return run(self.backend, self.metrics, job)


async def _given(ids: list[int]) -> list[int]:
    return ids


def _params(
    request: CompletionRequest | ChatRequest, max_tokens: int, logprobs: int | None
) -> SamplingParams:
    return SamplingParams(
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        top_k=request.top_k or 0,
        seed=new_seed(request.seed),
        logprobs=logprobs,
        max_tokens=max_tokens,
        ignore_eos=request.ignore_eos,
    )


def new_id(kind: str) -> str:
    """A name for an answer, such as "cmpl-…"."""
    return f"{kind}-{secrets.token_hex(12)}"


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """As OpenAI counts."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
