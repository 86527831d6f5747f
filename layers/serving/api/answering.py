"""An answer that takes time: whole or as a stream of events, given up when the client goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from fastapi import Response
from starlette.types import Receive, Scope, Send

from layers.serving.api.errors import ApiError

Json = dict[str, Any]


class _Answer(Response):
    """Works and listens at the same time: whatever ends first ends the other."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.create_task(self._answer(send))
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Cancelled work ends its generators, and so tells the scheduler.
            work.cancel()
            gone.cancel()
            ended = await asyncio.gather(work, gone, return_exceptions=True)
        if isinstance(ended[0], Exception):
            raise ended[0]

    async def _answer(self, send: Send) -> None:
        raise NotImplementedError


class WholeAnswer(_Answer):
    """JSON, once it is there.

    Args:
        work: makes it, or raises `ApiError`.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Json]]) -> None:
        super().__init__()
        self._work = work

    async def _answer(self, send: Send) -> None:
        try:
            status, body, headers = 200, await self._work(), {}
        except ApiError as error:
            status, body, headers = error.status, error.body, error.headers
        await send_json(send, status, body, headers)


class StreamedAnswer(_Answer):
    """Server-sent events, the last of them [DONE].

    Args:
        work: yields them; an `ApiError` before the first is an answer of its status, and one behind
            it an event.
    """

    def __init__(self, work: Callable[[], AsyncGenerator[Json, None]]) -> None:
        super().__init__()
        self._work = work

    async def _answer(self, send: Send) -> None:
        is_started = False
        async with aclosing(self._work()) as events:
            try:
                async for event in events:
                    if not is_started:
                        is_started = True
                        await _start(send, 200, {"content-type": "text/event-stream"})
                    await _body(send, _event(event), more=True)
                await _body(send, b"data: [DONE]\n\n", more=False)
            except ApiError as error:
                if is_started:
                    await _body(send, _event(error.body), more=False)
                else:
                    await send_json(send, error.status, error.body, error.headers)


async def send_json(send: Send, status: int, body: Json, headers: dict[str, str]) -> None:
    """A whole answer, by ASGI."""
    await _start(send, status, {"content-type": "application/json", **headers})
    await _body(send, json.dumps(body).encode(), more=False)


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
