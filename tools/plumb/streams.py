"""Where answers go, as it may be: a terminal, a file, a pipe that closes, a full disk, closed."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from tools.plumb.errors import ExitCode, PlumbError

_PIPE_WIDTH = 160


class Output(Console):
    """A console whose reader may go before the end, as in `plumb ... | head`."""

    def __init__(self, **settings: Any) -> None:
        # The label of //x:lock and a colon behind it would be the picture of a lock.
        super().__init__(emoji=False, **settings)

    def on_broken_pipe(self) -> NoReturn:
        """Ends the command quietly, as a shell does for a program that a closed pipe kills."""
        _discard()
        raise SystemExit(ExitCode.READER_GONE)


def stdout_console() -> Output:
    """The console for the answer. A file or a pipe has no width; labels are not folded there."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Output(highlight=False, width=None if known else _PIPE_WIDTH)


def open_missing() -> None:
    """Opens /dev/null for each standard stream that the caller closed, such as by `>&-`."""
    # The lowest free descriptor is taken, so in this order each gets its own number.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


@contextmanager
def answering(console: Output) -> Iterator[None]:
    """Around what writes to stdout: all of it is written at the end.

    Raises PlumbError if it cannot be, and SystemExit if the reader is gone.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        console.on_broken_pipe()
    except OSError as error:
        _discard()
        raise PlumbError(
            f"cannot write the answer to stdout: {error.strerror}. "
            "Send it to a file or a pipe that takes it.",
            ExitCode.ENVIRONMENT,
        ) from error


def write_file(path: Path, text: str) -> None:
    """Writes the answer to a file that the user named: all of it, or the file is as it was.

    A link is followed, and a device or a pipe is written to. Raises PlumbError if it cannot be.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            _replace(path.resolve(), text.encode(errors="backslashreplace"))
    except OSError as error:
        raise PlumbError(
            f"cannot write {path}: {error.strerror}. Name a file that you may write, in a folder "
            "that is there.",
            ExitCode.ENVIRONMENT,
        ) from error


def _replace(path: Path, data: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    # It can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def give_up_stderr() -> None:
    """Sends all further messages to /dev/null, for a stderr on a full disk."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _discard() -> None:
    # The interpreter flushes once more at its end, and would complain.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
