"""Counts answers by route and status."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layers.serving.api.metrics import Metrics

# What nginx writes for a client that went away before its answer.
_GONE = "499"


class CountRequests:
    """An ASGI application around another.

    Args:
        app: the other.
        metrics: where to count.
        paths: that have a name of their own; anything else is "other".
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Sequence[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands on, and notes the status and whether the answer was sent whole."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = _GONE
        is_whole = False

        async def noting(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = str(message["status"])
            elif message["type"] == "http.response.body":
                is_whole = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, status if is_whole else _GONE).inc()
