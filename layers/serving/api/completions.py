"""POST /v1/completions: whole and streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from layers.serving.api.choices import collect
from layers.serving.api.logprobs import for_completion, num_characters
from layers.serving.api.protocol import CompletionRequest
from layers.serving.api.service import Service, new_id, usage

Json = dict[str, Any]


async def whole(service: Service, request: CompletionRequest) -> Json:
    """The answer in one piece; raises ApiError."""
    count = len(request.prompts) * (request.n or 1)
    with service.admitted(count):
        job = await service.completion_job(request)
        async with aclosing(service.run(job)) as deltas:
            texts = await collect(deltas, count)
    choices = [
        _choice(
            index,
            text.text,
            text.finish,
            None if request.logprobs is None else for_completion(text.logprobs, 0),
        )
        for index, text in enumerate(texts)
    ]
    answer = _head(service)
    answer["choices"] = choices
    answer["usage"] = usage(job.prompt_tokens, sum(text.tokens for text in texts))
    return answer


async def streamed(service: Service, request: CompletionRequest) -> AsyncGenerator[Json, None]:
    """The answer's events; raises ApiError."""
    count = len(request.prompts) * (request.n or 1)
    with service.admitted(count):
        job = await service.completion_job(request)
        head = _head(service)
        if request.wants_usage:
            head["usage"] = None
        offsets = [0] * count
        tokens = 0
        async with aclosing(service.run(job)) as deltas:
            async for index, delta in deltas:
                tokens += delta.tokens
                if not (delta.text or delta.finish or delta.logprobs):
                    continue
                logprobs = None
                if request.logprobs is not None:
                    logprobs = for_completion(delta.logprobs, offsets[index])
                    offsets[index] += num_characters(delta.logprobs)
                choice = _choice(index, delta.text, delta.finish or None, logprobs)
                yield {**head, "choices": [choice]}
    if request.wants_usage:
        yield {**head, "choices": [], "usage": usage(job.prompt_tokens, tokens)}


def _head(service: Service) -> Json:
    return {
        "id": new_id("cmpl"),
        "object": "text_completion",
        "created": int(time.time()),
        "model": service.model,
    }


def _choice(index: int, text: str, finish: str | None, logprobs: Json | None) -> Json:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
