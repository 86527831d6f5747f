"""POST /v1/chat/completions: whole and streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from layers.serving.api.choices import collect
from layers.serving.api.logprobs import for_chat
from layers.serving.api.protocol import ChatRequest
from layers.serving.api.service import Service, new_id, usage

Json = dict[str, Any]


async def whole(service: Service, request: ChatRequest) -> Json:
    """The answer in one piece; raises ApiError."""
    count = request.n or 1
    with service.admitted(count):
        job = await service.chat_job(request)
        async with aclosing(service.run(job)) as deltas:
            texts = await collect(deltas, count)
    answer = _head(service, "chat.completion")
    answer["choices"] = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text.text, "refusal": None},
            "logprobs": for_chat(text.logprobs) if request.logprobs else None,
            "finish_reason": text.finish,
        }
        for index, text in enumerate(texts)
    ]
    answer["usage"] = usage(job.prompt_tokens, sum(text.tokens for text in texts))
    return answer


async def streamed(service: Service, request: ChatRequest) -> AsyncGenerator[Json, None]:
    """The answer's events; raises ApiError."""
    count = request.n or 1
    with service.admitted(count):
        job = await service.chat_job(request)
        head = _head(service, "chat.completion.chunk")
        if request.wants_usage:
            head["usage"] = None
        for index in range(count):
            first = {"role": "assistant", "content": "", "refusal": None}
            yield {**head, "choices": [_choice(index, first, None, None)]}
        tokens = 0
        async with aclosing(service.run(job)) as deltas:
            async for index, delta in deltas:
                tokens += delta.tokens
                if not (delta.text or delta.finish or delta.logprobs):
                    continue
                logprobs = for_chat(delta.logprobs) if request.logprobs else None
                content = {"content": delta.text} if delta.text or delta.logprobs else {}
                choice = _choice(index, content, delta.finish or None, logprobs)
                yield {**head, "choices": [choice]}
    if request.wants_usage:
        yield {**head, "choices": [], "usage": usage(job.prompt_tokens, tokens)}


def _head(service: Service, kind: str) -> Json:
    return {
        "id": new_id("chatcmpl"),
        "object": kind,
        "created": int(time.time()),
        "model": service.model,
    }


def _choice(index: int, delta: Json, finish: str | None, logprobs: Json | None) -> Json:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
