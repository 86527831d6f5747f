"""Keeps two bootstraps of one cache apart."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock file `path`; if another process has it, says so once and waits.

    The kernel lets go of the lock when its holder ends, however it ends, so none is ever stale.

    Args:
        path: made if missing, and left in place.
        on_wait: called with one sentence before waiting.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            on_wait(f"Another bootstrap (process {holder}) is at work in {path.parent}: waiting.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
