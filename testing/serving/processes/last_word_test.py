"""A worker that cannot start says why, though its end may be noticed before its word is read."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from layers.serving.api import server as server_module
from layers.serving.api.server import HttpServer, StartError
from layers.serving.messages import Failed
from layers.serving.options import parse
from layers.serving.workers.endpoints import Endpoints, outbox, tell
from layers.serving.workers.process import start


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one, as a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="serving-", dir="/tmp") as made:
        yield Path(made)


def _ends() -> None:
    """A worker that has nothing to do."""


async def _served(folder: Path, word: str | None) -> int:
    endpoints = Endpoints(folder)
    worker = start("scheduler", _ends)
    server = HttpServer(parse(["--model", str(folder)]), endpoints, [worker])
    running = asyncio.create_task(server.run())
    try:
        while worker.process.exitcode is None:
            await asyncio.sleep(0.01)
        # By now its end has been noticed.
        await asyncio.sleep(0.2)
        if word is not None:
            with zmq.Context() as context, outbox(context, endpoints.of("server")) as telling:
                tell(telling, Failed("scheduler", word))
        await asyncio.wait_for(running, 30)
        return server.exit_code
    finally:
        server.close()


def test_a_word_that_comes_behind_the_end_is_the_reason(folder: Path) -> None:
    with pytest.raises(StartError, match="the reason"):
        asyncio.run(_served(folder, "the reason"))


def test_an_end_without_a_word_ends_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_module, "_WORD_SECONDS", 0.5)
    assert asyncio.run(_served(folder, None)) == 1
    assert "worker scheduler" in capsys.readouterr().err
