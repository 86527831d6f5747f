"""Unpacks packed wheels into a worker's cache, where every later test finds them.

Called by tools/python/start.sh, before the import path stands: only the standard library is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_CHUNK = 1 << 20
_DAY = 86400
_UNUSED_DAYS = 14


def prepare(cache: Path) -> bool:
    """Makes the folder `cache`; whether it is a folder that only this user can write."""
    with contextlib.suppress(OSError):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        status = cache.lstat()
    except OSError:
        return False
    own = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return own and cache.is_dir() and not cache.is_symlink() and os.access(cache, os.W_OK)


def _remove(tree: Path) -> None:
    """Removes a folder whose folders are read-only."""
    for folder, _, _ in os.walk(tree):
        Path(folder).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)


def _extract(pack: Path, folder: Path) -> None:
    # Plain calls and strings: 21,000 files are most of what a worker's first torch test takes.
    root, made = str(folder), {""}
    with tarfile.open(pack, "r:") as archive, pack.open("rb", buffering=0) as packed:
        for entry in archive:
            place, _, _ = entry.name.rpartition("/")
            if not entry.isfile() or not {"", ".", ".."}.isdisjoint(entry.name.split("/")):
                raise ValueError(f"{pack}: entry {entry.name!r} is no file inside the pack")
            if place not in made:
                Path(root, place).mkdir(parents=True, exist_ok=True)
                made.add(place)
            packed.seek(entry.offset_data)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            file = os.open(f"{root}/{entry.name}", flags, entry.mode)
            with os.fdopen(file, "wb", buffering=0) as unpacked:
                left = entry.size
                while left:
                    if not (data := packed.read(min(left, _CHUNK))):
                        raise ValueError(f"{pack}: it ends within {entry.name!r}")
                    left -= unpacked.write(data)
    for below, _, _ in os.walk(root):
        Path(below).chmod(0o555)


def unpack(pack: Path, wheels: Path) -> Path:
    """Unpacks one wheel into `wheels`, unless it is there; returns its read-only folder.

    Written beside and renamed, under a lock: a folder that is there is whole, also where two tests
    start at once. Raises OSError (no space, say), or ValueError for a pack that is not what its
    digest says.
    """
    digest = Path(f"{pack}.sha256").read_text().strip()
    folder = wheels / digest
    with (wheels / f"{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with pack.open("rb") as packed:
                seen = hashlib.file_digest(packed, "sha256").hexdigest()
            if seen != digest:
                raise ValueError(f"{pack}: SHA-256 {seen}, wanted {digest}: it came damaged")
            beside = Path(tempfile.mkdtemp(prefix=f"{digest}.new.", dir=wheels))
            try:
                _extract(pack, beside)
                beside.rename(folder)
            except BaseException:
                _remove(beside)
                raise
        (wheels / f"{digest}.used").touch()
    return folder


def forget_unused(cache: Path, now: float) -> None:
    """Removes wheels that no test used for 14 days, and what was left half unpacked a day ago."""
    ages = [(path, _UNUSED_DAYS) for path in cache.glob("*/*.used")]
    ages += [(path, 1) for path in cache.glob("*/*.new.*")]
    for path, days in ages:
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime <= days * _DAY:
                continue
            if path.suffix == ".used":
                path.unlink()
                path = path.with_suffix("")
            _remove(path)


def main(arguments: Sequence[str]) -> int:
    """CACHE BOOT PACK:PACK…: prints the folder that holds each pack's wheel by its digest.

    It is CACHE/BOOT, or, where that cannot be written, one of the test's own: slow, but right.
    """
    cache, boot, packs = Path(arguments[0]), arguments[1], arguments[2].split(":")
    wheels = cache / boot
    try:
        if prepare(cache):
            wheels.mkdir(exist_ok=True)
            forget_unused(cache, time.time())
        else:
            wheels = Path(os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp()) / "wheels"
            wheels.mkdir(exist_ok=True)
            print(
                f"{cache} is no folder that only this user can write: wheels are unpacked for this "
                "one test. Let PLUMBLINE_WHEELS name one, and later tests start at once.",
                file=sys.stderr,
            )
        for pack in packs:
            unpack(Path(pack), wheels)
    except (OSError, ValueError) as error:
        print(f"{error}. Let PLUMBLINE_WHEELS name a folder with 2 GB of room.", file=sys.stderr)
        return 1
    print(wheels)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
