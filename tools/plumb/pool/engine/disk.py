"""Whether the disk of the store has room, and what a full one left broken there.

buildbox-casd keeps no promise on a full disk: an object that could not be written is in its store
all the same, short or empty, and every later test that needs it fails. So the store is stopped
while the disk is full, and what was written at that time is compared with its name, a digest.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

_MEGABYTE = 1_000_000
LEAST_BYTES = 64 * _MEGABYTE
"""Below this the disk is full; casd drops what it used least long before, at a gigabyte."""
_AGAIN = 3
# A file may be older than the moment at which the disk was seen full, and empty since then.
_MARGIN_SECONDS = 60


class Disk:
    """The disk of the store in `store`, casd's own folder. least: bytes that have to be free."""

    def __init__(self, store: Path, least: int = LEAST_BYTES) -> None:
        self.store, self.least = store, least
        self._is_full = False
        self._good = time.time()

    def trouble(self) -> str:
        """Why the store must not run, for a person; empty while the disk has room."""
        folder = self.store if self.store.is_dir() else self.store.parent
        found = os.statvfs(folder)
        free = found.f_bavail * found.f_frsize
        wanted = self.least * _AGAIN if self._is_full else self.least
        self._is_full = free < wanted
        if not self._is_full:
            return ""
        return (
            f"the disk of {folder} has {free // _MEGABYTE} MB left, wanted {wanted // _MEGABYTE}: "
            "free some there"
        )

    def note_good(self) -> None:
        """Says that all was well until now."""
        self._good = time.time()

    def mend(self) -> int:
        """Removes what the full disk left broken, while the store is down; says how many files."""
        count = 0
        since = self._good - _MARGIN_SECONDS
        for folder in ("cas/objects", "cas/tmp", "actioncache/objects", "actioncache/tmp"):
            for path in (self.store / folder).rglob("*"):
                # What expires as we look has done so by another's hand.
                with suppress(FileNotFoundError):
                    if path.is_file() and path.stat().st_mtime >= since and not _is_whole(path):
                        path.unlink()
                        count += 1
        return count


def _is_whole(path: Path) -> bool:
    """Whether an object's content has its name; what is named by nothing can be made again."""
    if path.parent.parent.parts[-2:] != ("cas", "objects"):
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == path.parent.name + path.name
