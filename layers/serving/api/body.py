"""Reads a request's body before anything else does, and no more of it than a server takes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layers.serving.api.answering import send_json
from layers.serving.api.errors import ApiError, too_large

# A client that is still sending reads no answer if the connection is cut: so long its bytes are
# taken, and dropped.
_DISCARD_SECONDS = 10


class LimitBody:
    """An ASGI application around another, which gets each body whole.

    Args:
        app: the other.
        most: bytes of a body; a longer one is answered with 413 as soon as that is known, by its
            Content-Length or by what came in chunks.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands on the body, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        is_taken, more = _announced(scope) <= self._most, True
        while is_taken and more:
            message = await receive()
            if message["type"] != "http.request":
                return  # The client went away.
            more = message.get("more_body", False)
            body += message.get("body", b"")
            is_taken = len(body) <= self._most
        if is_taken:
            await self._app(scope, _replayed(bytes(body), receive), send)
        else:
            body.clear()
            await _refuse(too_large(self._most), receive if more else None, send)


def _announced(scope: Scope) -> int:
    """Bytes by the header; 0 without one."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths else 0


def _replayed(body: bytes, receive: Receive) -> Receive:
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> Message:
        return next(parts, None) or await receive()

    return again


async def _refuse(error: ApiError, receive: Receive | None, send: Send) -> None:
    """Answers at once, and ends the answer when the client has sent all that is left."""

    async def unended(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await send_json(unended, error.status, error.body, {**error.headers, "connection": "close"})
    if receive is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while (await receive()).get("more_body", False):
                    pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
