"""A worker's process: forked, named, and never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_CONTEXT = multiprocessing.get_context("fork")


END_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What ends a server."""


def hold_signals() -> None:
    """Lets signals that end the server wait till `release_signals`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)


def release_signals() -> None:
    """Takes them, and those that have come meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


@dataclass(frozen=True)
class Worker:
    """A process and its name."""

    name: str
    process: BaseProcess

    @property
    def pid(self) -> int:
        """Its number."""
        assert self.process.pid is not None
        return self.process.pid

    @property
    def end(self) -> str:
        """How it ended, as a sentence's end."""
        code = self.process.exitcode
        if code is None:
            return "still runs"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


def start(name: str, main: Callable[..., None], *arguments: Any) -> Worker:
    """Forks a worker that runs `main(*arguments)`.

    This process must have one thread alone: what others hold would stay locked in the child. A fork
    costs milliseconds, and what was read before, such as the tokenizer, is shared.
    """
    process = _CONTEXT.Process(
        target=_run, args=(name, os.getpid(), main, arguments), name=name, daemon=True
    )
    process.start()
    return Worker(name, process)


def _run(name: str, parent: int, main: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    _prepare(name, parent)
    try:
        main(*arguments)
    except BaseException:
        traceback.print_exc()
        code = 1
    else:
        code = 0
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    # Libraries' own ends, such as torch's of a broken process group, may hang.
    os._exit(code)


def _prepare(name: str, parent: int) -> None:
    # A terminal's Ctrl-C, and what a service manager sends to all, is for the server: it lets texts
    # end before it ends its workers.
    os.setsid()
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # Programs that a worker starts, such as compilers, take them as ever.
    release_signals()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, name.encode()[:15])
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the kernel was told.
        os._exit(1)
