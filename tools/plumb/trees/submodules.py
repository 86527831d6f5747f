"""Takes the files of submodules for files of the tree that names them, as Bazel does.

A submodule whose commit is not on this machine stays what it is to git: the name of a commit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tools.plumb.trees.files import SUBMODULE, Entry, FileTable


def merged(table: FileTable, parts: Mapping[str, FileTable]) -> FileTable:
    """`table` with the files of `parts`, which are by path, in place of the submodules there."""
    entries = {path: entry for path, entry in table.entries.items() if path not in parts}
    owners: dict[str, Callable[[Entry], bytes]] = {}
    for folder, part in parts.items():
        for path, entry in part.entries.items():
            entries[f"{folder}/{path}"] = entry
            owners[entry.object_id] = part.read
    own = table.read
    return FileTable(entries, lambda entry: owners.get(entry.object_id, own)(entry))


def paths(entries: Mapping[str, Entry]) -> list[str]:
    """Where the tree names submodules, sorted."""
    return sorted(path for path, entry in entries.items() if entry.mode == SUBMODULE)


def is_checked_out(folder: Path) -> bool:
    """True if there is a repository of its own in `folder`."""
    return (folder / ".git").exists()


def index_of(index: Path, path: str) -> Path:
    """The private index for the submodule at `path`, beside that of the whole."""
    return index.with_name(f"{index.name}-{hashlib.sha256(path.encode()).hexdigest()[:16]}")


def remove_others(folder: Path, index: Path, kept: Iterable[str]) -> None:
    """Removes from a checkout the submodules that it held and that are not among `kept`."""
    note = index.with_name(f"{index.name}-submodules")
    held: list[str] = []
    with suppress(OSError, ValueError):
        held = json.loads(note.read_text())
    now = sorted(kept)
    for path in held:
        if path not in now:
            shutil.rmtree(folder / path, ignore_errors=True)
            index_of(index, path).unlink(missing_ok=True)
    if held or now:
        note.write_text(json.dumps(now))
