"""Carries Bazel's calls to a pool over TLS: for a Bazel whose own Java cannot.

The Bazel that is put together from Debian's packages ends with 'JDK provider does not support ALPN
protocol'. The near end listens on the loopback for as long as the command runs.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 16


@dataclass
class Tunnel:
    """port: where it listens on the loopback. trouble: why no connection was made of late."""

    port: int = 0
    trouble: str = ""


@contextmanager
def tunnel(
    host: str, port: int, authority: Path, client: tuple[Path, Path] | None
) -> Iterator[Tunnel]:
    """A port of the loopback that leads to `host` while the context lasts.

    authority: whom the server's certificate has to be signed by. client: certificate and key that
    we show; None for none.
    """
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    if client is not None:
        context.load_cert_chain(*client)
    far = _Far(host, port, context)
    opened = Future[asyncio.Event]()
    thread = threading.Thread(target=lambda: asyncio.run(far.serve(opened)), daemon=True)
    thread.start()
    ended = opened.result()
    try:
        yield far.tunnel
    finally:
        far.loop.call_soon_threadsafe(ended.set)
        thread.join()


class _Far:
    """The other end: one connection there for each here."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self.host, self.port, self.context = host, port, context
        self.tunnel = Tunnel()
        self.loop: asyncio.AbstractEventLoop

    async def serve(self, opened: Future[asyncio.Event]) -> None:
        """Carries connections until the event is set that `opened` comes to."""
        self.loop, ended = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        except BaseException as error:
            opened.set_exception(error)
            return
        self.tunnel.port = server.sockets[0].getsockname()[1]
        opened.set_result(ended)
        await ended.wait()
        server.close()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copies both ways until one side ends, or the tunnel does."""
        # Whoever ends the tunnel cancels this, and nobody asks what became of it.
        with suppress(asyncio.CancelledError):
            try:
                await self._carry(reader, writer)
            except OSError as error:
                # Bazel asks again, and then says no more than that the server cannot be reached.
                self.tunnel.trouble = f"{self.host}:{self.port}: {error}"
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(self.host, self.port, ssl=self.context)
        self.tunnel.trouble = ""
        ways = [
            asyncio.create_task(_copy(reader, there[1])),
            asyncio.create_task(_copy(there[0], writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            ends = await asyncio.gather(*ways, return_exceptions=True)
            there[1].close()
        # With TLS 1.3 a server refuses a client's certificate only behind the handshake.
        for end in ends:
            if isinstance(end, ssl.SSLError):
                raise end


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
