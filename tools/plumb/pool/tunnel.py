"""Carries Bazel's calls to a pool over TLS: for a Bazel whose own Java cannot.

The Bazel that is put together from Debian's packages ends with 'JDK provider does not support ALPN
protocol'. The near end listens on the loopback for as long as the command runs.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CHUNK = 1 << 16


@contextmanager
def tunnel(
    host: str, port: int, authority: Path, client: tuple[Path, Path] | None
) -> Iterator[int]:
    """The port of the loopback that leads to `host` while the context lasts.

    authority: whom the server's certificate has to be signed by. client: certificate and key that
    we show; None for none.
    """
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    if client is not None:
        context.load_cert_chain(*client)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    far = _Far(host, port, context)
    try:
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(far.carry, "127.0.0.1", 0), loop
        ).result()
        near: int = server.sockets[0].getsockname()[1]
        yield near
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class _Far:
    """The other end: one connection there for each here."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self.host, self.port, self.context = host, port, context

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copies both ways until one side ends."""
        try:
            there = await asyncio.open_connection(self.host, self.port, ssl=self.context)
        except OSError:
            # Bazel asks again, and then says that the server cannot be reached.
            writer.close()
            return
        ways = {
            asyncio.create_task(_copy(reader, there[1])),
            asyncio.create_task(_copy(there[0], writer)),
        }
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for end in (writer, there[1]):
            end.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
