"""SIGTERM to the server alone, or to all of its processes: it is said, and no client hangs."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import zmq

from layers.serving.api import server as server_module
from layers.serving.api.server import HttpServer
from layers.serving.messages import Ready
from layers.serving.options import parse
from layers.serving.workers.endpoints import Endpoints, outbox, tell
from layers.serving.workers.process import start
from testing.serving.model_folder import LOADER, write_folder
from testing.serving.server import running_server

KNOWN = ("--loader", LOADER, "--torch-threads", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "known", max_position=4096)


def asking(url: str, answers: list[httpx.Response], tokens: int, n: int = 1) -> threading.Thread:
    """A client in a thread of its own; its request is on its way."""
    body = {"model": "known", "prompt": [1], "max_tokens": tokens, "n": n, "ignore_eos": True}

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            answers.append(client.post("/v1/completions", json=body))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_a_signal_to_every_process_lets_texts_end(folder: Path) -> None:
    """As `pkill` and service managers send it."""
    answers: list[httpx.Response] = []
    with running_server(folder, *KNOWN, stop=False) as server:
        thread = asking(server.url, answers, tokens=1500)
        server.wait_for("plumbline_requests_in_flight", 1)
        for process in [psutil.Process(server.process.pid), *server.workers().values()]:
            # On a busy machine the first to be told may have let the others end by then.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        thread.join(60)
        assert server.process.wait(60) == 0
        assert "SIGTERM: the server is stopping; texts in flight: 1." in server.output()
    # A machine that is very busy may not be done within the drain.
    assert answers[0].status_code in (200, 503), answers[0].text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_server_starts_ends_it(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """As Ctrl-C sends it, to all processes of the terminal."""
    command = [sys.executable, "-m", "layers.serving", "--model", str(folder), *KNOWN]
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        environ = {**os.environ, "PYTHONPATH": path, "TMPDIR": scratch}
        process = subprocess.Popen(
            command, env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            while not list(Path(scratch).iterdir()):
                assert process.poll() is None, process.communicate()
            os.killpg(process.pid, number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
        assert not list(Path(scratch).iterdir())
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert f"{number.name}: the server is stopping" in said


def test_a_text_that_is_not_done_in_time_is_told_so(folder: Path) -> None:
    answers: list[httpx.Response] = []
    with running_server(folder, *KNOWN, stop=False) as server:
        thread = asking(server.url, answers, tokens=4000, n=4)
        server.wait_for("plumbline_requests_in_flight", 4)
        worker = psutil.Process(server.workers()["scheduler"].pid)
        worker.suspend()
        server.process.terminate()
        thread.join(60)
        worker.resume()
        assert server.process.wait(60) == 0
        assert "SIGTERM: the server is stopping; texts in flight: 4." in server.output()
    assert answers[0].status_code == 503
    assert answers[0].json()["error"]["code"] == "server_stopping"


def _mortal() -> None:
    """A worker that SIGTERM ends, as one would whose library has put the default back."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pause()


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A short one, as a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="serving-", dir="/tmp") as made:
        yield Path(made)


async def _gone(
    folder: Path, sockets: Path, answers: list[httpx.Response], pause: float | None
) -> int:
    """A server whose workers never answer, and die of SIGTERM.

    Args:
        pause: seconds after which it gets the signal as well; None is never.
    """
    endpoints = Endpoints(sockets)
    workers = [start(name, _mortal) for name in ("scheduler", "tokenizer-0", "detokenizer-0")]
    server = HttpServer(parse(["--model", str(folder)]), endpoints, workers)
    printed: list[str] = []
    server_module.print = lambda *words, **_: printed.extend(words)  # type: ignore[attr-defined]
    running = asyncio.create_task(server.run())
    try:
        with zmq.Context() as context, outbox(context, endpoints.of("server")) as telling:
            for worker in workers:
                tell(telling, Ready(worker.name, 256, 100))
            while not printed:
                await asyncio.sleep(0.01)
            thread = asking(printed[0].split()[-1], answers, tokens=50)
            while not server.num_in_flight:
                await asyncio.sleep(0.01)
            for worker in workers:
                os.kill(worker.pid, signal.SIGTERM)
            if pause is not None:
                await asyncio.sleep(pause)
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(running, 30)
            thread.join(30)
        return server.exit_code
    finally:
        del server_module.print  # type: ignore[attr-defined]
        server.close()


@pytest.mark.parametrize("pause", [0.0, 0.2], ids=["at_once", "when_their_end_was_noticed"])
def test_workers_that_are_gone_with_it_leave_no_client_waiting(
    folder: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    # Either would outlast the test.
    monkeypatch.setattr(server_module, "DRAIN_SECONDS", 600)
    monkeypatch.setattr(server_module, "_SIGNAL_SECONDS", 600)
    answers: list[httpx.Response] = []
    assert asyncio.run(_gone(folder, sockets, answers, pause)) == 0
    assert answers[0].status_code == 503


def test_workers_that_are_gone_alone_are_a_failure(
    folder: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_SIGNAL_SECONDS", 0.1)
    answers: list[httpx.Response] = []
    assert asyncio.run(_gone(folder, sockets, answers, None)) == 1
    assert answers[0].status_code in (500, 503)
    assert "was killed by SIGTERM" in answers[0].json()["error"]["message"]
