"""Folders under the user's cache, atomic writes and the locks that two runs share.

Nothing here is needed for a right answer: removing the folder only makes the next run slower.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tools.plumb.errors import ExitCode, PlumbError

Notify = Callable[[str], None]


def cache_root() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/plumbline`, made if missing.

    Raises PlumbError if it cannot be made.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "plumbline"
    return make_folder(root)


def make_folder(path: Path) -> Path:
    """Makes `path` with its parents. Raises PlumbError naming the folder and the cause."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlumbError(
            f"cannot make the cache folder {path}: {error.strerror}. "
            "Set XDG_CACHE_HOME to a folder that you can write.",
            ExitCode.ENVIRONMENT,
        ) from error
    return path


def folder_for(workspace: Path) -> Path:
    """The cache folder of one workspace: where its graphs and its private checkout live."""
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    return make_folder(cache_root() / "plumb" / name)


def write_atomically(path: Path, data: bytes) -> None:
    """Writes beside `path`, then renames: readers see the old content or all of the new."""
    make_folder(path.parent)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PlumbError(
            f"cannot write {path}: {error.strerror}. Free some space there, or set XDG_CACHE_HOME.",
            ExitCode.ENVIRONMENT,
        ) from error


@contextmanager
def locked(path: Path, notify: Notify, what: str) -> Iterator[None]:
    """Holds the lock file `path`, saying `what` is waited for when another run has it."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notify(f"waiting for another plumb that {what} (lock: {path})")
        lock.acquire()
    except OSError as error:
        raise PlumbError(
            f"cannot lock {path}: {error.strerror}. Set XDG_CACHE_HOME to a writable folder.",
            ExitCode.ENVIRONMENT,
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A temporary folder below `parent`, removed at the end, also when interrupted.

    Those that a killed run left a day ago or earlier go as well.
    """
    keep_newest(make_folder(parent), 0)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep_newest(folder: Path, count: int, age: float = 86400.0) -> None:
    """Removes what was last used over `age` seconds ago, sparing the `count` newest entries.

    The age spares what another run is reading.
    """

    def last_use(path: Path) -> float:
        try:
            return path.lstat().st_mtime
        except OSError:
            return 0.0

    limit = time.time() - age
    for path in sorted(folder.iterdir(), key=last_use, reverse=True)[count:]:
        if last_use(path) > limit:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def keep_within(folder: Path, size: int) -> None:
    """Removes the files of `folder` that were longest unused, until the rest has `size` bytes.

    Others may write and read there: what one of them removes first is gone, and what a reader has
    open stays readable.
    """
    found: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with suppress(OSError):
            status = path.lstat()
            found.append((status.st_mtime, status.st_size, path))
    total = 0
    for number, (_, length, path) in enumerate(sorted(found, key=lambda f: f[0], reverse=True)):
        total += length
        # The newest stays whatever its size: it is the answer to the question at hand.
        if number and total > size:
            path.unlink(missing_ok=True)
