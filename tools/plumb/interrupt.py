"""Ctrl-C and SIGTERM, of which none is lost.

Python raises KeyboardInterrupt wherever the main thread is. In a finalizer or a weak reference's
callback, such as the import system's, it is printed or dropped, and the program runs on. So what
came is kept as well, and met again where the next long thing would start.
"""

from __future__ import annotations

import signal
import subprocess
from types import FrameType

from tools.plumb.errors import Terminated

_came: list[type[KeyboardInterrupt]] = []


def install() -> None:
    """Has SIGINT raise KeyboardInterrupt and SIGTERM Terminated.

    A SIGINT that is ignored stays so: a shell's background job is not what Ctrl-C is for.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)
    signal.signal(signal.SIGTERM, _terminated)


def check() -> None:
    """Raises what came and was not met yet; called before a process is started."""
    if _came:
        raise _came[-1]


def forget() -> None:
    """For one who met it and goes on."""
    _came.clear()


def wait(process: subprocess.Popen[bytes]) -> int:
    """What a Bazel that runs tests ended with; an interrupted one first ends them, then itself."""
    while True:
        try:
            return process.wait()
        except Terminated:
            # Sent to us alone.
            forget()
            process.terminate()
        except KeyboardInterrupt:
            # The terminal sent it to Bazel too.
            forget()


def _interrupted(number: int, frame: FrameType | None) -> None:
    _came.append(KeyboardInterrupt)
    raise KeyboardInterrupt


def _terminated(number: int, frame: FrameType | None) -> None:
    _came.append(Terminated)
    raise Terminated
