"""Starts a server as its users do, as a process of its own, and sees that nothing is left of it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

# What a stop may take: drained requests, then workers that do not end.
STOP_SECONDS = 40.0
# Asks the kernel to kill this process when the thread that started it is gone (PR_SET_PDEATHSIG),
# then becomes the server. A test's own handlers do not run where the test is killed.
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.getppid() == int(sys.argv[1]) or sys.exit("whoever started this is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
_READY = re.compile(r"^Serving (.+) at (http://\S+)$", re.MULTILINE)


class ServerError(AssertionError):
    """The server did not start, or did not end as it should; the message holds its output."""


@dataclass
class Server:
    """A running server.

    Attributes:
        url: such as "http://127.0.0.1:40001".
        model: what requests call it.
        process: the HTTP process.
        scratch: the folder that holds its sockets while it runs.
    """

    url: str
    model: str
    process: subprocess.Popen[bytes]
    scratch: Path
    _log: Path

    def output(self) -> str:
        """What it printed so far, stdout and stderr."""
        return _read(self._log)

    def workers(self) -> dict[str, psutil.Process]:
        """Its worker processes by name: tokenizer-0 …, detokenizer-0 …, scheduler, rank-1 …."""
        return {child.name(): child for child in psutil.Process(self.process.pid).children()}

    def client(self, timeout: float = 30) -> httpx.Client:
        """To talk HTTP to it; relative paths are enough."""
        # Proxies of the environment would be asked for 127.0.0.1, too.
        return httpx.Client(base_url=self.url, timeout=timeout, trust_env=False)

    def metric(self, name: str) -> float:
        """One value of /metrics, its labels as they stand there.

        Raises:
            KeyError: there is none.
        """
        with self.client() as client:
            for line in client.get("/metrics").text.splitlines():
                if line.startswith(f"{name} "):
                    return float(line.rsplit(" ", 1)[1])
        raise KeyError(name)

    def wait_for(self, name: str, value: float, seconds: float = 30) -> None:
        """Waits until a metric has a value.

        Raises:
            ServerError: it has not in time.
        """
        deadline = time.monotonic() + seconds
        while (seen := self.metric(name)) != value:
            if time.monotonic() > deadline:
                raise ServerError(f"{name} is {seen} after {seconds} s, wanted {value}")
            time.sleep(0.02)


@contextmanager
def running_server(
    model: Path,
    *options: str,
    seconds: float = 60,
    env: Mapping[str, str] | None = None,
    expect_exit: int = 0,
    stop: bool = True,
    leaves_files: bool = False,
    module: str = "layers.serving",
) -> Iterator[Server]:
    """A server for the block; SIGTERM behind it. It does not outlive this thread.

    What the block raises says how the server was then, and what it had printed.

    Args:
        model: its folder.
        options: of the command line.
        seconds: that its start may take.
        env: beside this process's environment.
        expect_exit: how it should end.
        stop: whether to send SIGTERM at all; without it the block has to have ended the server.
        leaves_files: whether sockets may be left, as by SIGKILL they are.
        module: what is started; another one than the server itself may plant faults into it.

    Raises:
        ServerError: it did not start, or ended otherwise, or left a process or a socket.
    """
    with tempfile.TemporaryDirectory(prefix="srv-") as folder:
        log = Path(folder) / "log"
        # On /tmp: a socket's path is short, and a test's own folder need not be.
        with (
            tempfile.TemporaryDirectory(prefix="srv-", dir="/tmp") as scratch,
            log.open("wb") as out,
        ):
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid())),
                    *(sys.executable, "-m", module, "--model", str(model), *options),
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=_environment(scratch, env or {}),
            )
            family: list[psutil.Process] = []
            try:
                url, name = _wait_ready(process, log, seconds)
                family = psutil.Process(process.pid).children(recursive=True)
                yield Server(url, name, process, Path(scratch), log)
                if stop and process.poll() is None:
                    process.terminate()
                _require_end(process, log, expect_exit, family)
                if not leaves_files:
                    _require_empty(Path(scratch), log)
            except BaseException as error:
                if not isinstance(error, ServerError):
                    error.add_note(f"The server {_state(process)}. It printed:\n{_read(log)}")
                raise
            finally:
                _kill(process, family)


def _environment(scratch: str, env: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": path, "TMPDIR": scratch, **env}


def _wait_ready(process: subprocess.Popen[bytes], log: Path, seconds: float) -> tuple[str, str]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = _READY.search(_read(log))
        if found:
            return found[2], found[1]
        if process.poll() is not None:
            break
        select.select([], [], [], 0.02)
    raise ServerError(
        f"no ready line within {seconds} s; the server {_state(process)}. It printed:\n{_read(log)}"
    )


def _state(process: subprocess.Popen[bytes]) -> str:
    """How it is, or how it ended, as the end of a sentence."""
    code = process.poll()
    if code is None:
        return f"still ran (pid {process.pid})"
    if code < 0:
        return f"had been killed by {signal.Signals(-code).name}"
    return f"had ended with exit code {code}"


def _read(log: Path) -> str:
    return log.read_text(errors="replace")


def _require_end(
    process: subprocess.Popen[bytes],
    log: Path,
    expect_exit: int,
    family: list[psutil.Process],
) -> None:
    try:
        code = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise ServerError(f"still runs {STOP_SECONDS} s behind its stop:\n{_read(log)}") from None
    output = _read(log)
    if code != expect_exit:
        raise ServerError(f"{_state(process)}, wanted exit code {expect_exit}:\n{output}")
    left = [child for child in family if child.is_running()]
    if left:
        raise ServerError(f"left the processes {[child.pid for child in left]}:\n{output}")


def _require_empty(scratch: Path, log: Path) -> None:
    files = [str(path) for path in scratch.iterdir()]
    if files:
        raise ServerError(f"left {', '.join(files)}:\n{_read(log)}")


def _kill(process: subprocess.Popen[bytes], family: list[psutil.Process]) -> None:
    if process.poll() is None:
        # Its workers die with it: they ask the kernel for that.
        process.kill()
        process.wait()
    for child in family:
        if child.is_running():
            child.kill()
