"""The files of a tree by path, and what identifies the content that Bazel would see."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

SYMLINK = "120000"
SUBMODULE = "160000"
_LINK_LIMIT = 40


@dataclass(frozen=True)
class Entry:
    """mode: git's, such as 100644, 100755 (executable), 120000 (link); object_id: of the blob."""

    mode: str
    object_id: str


@dataclass
class FileTable:
    """Files of a tree: path (relative, with slashes) to entry.

    read: returns the content of an entry's blob.
    """

    entries: Mapping[str, Entry]
    read: Callable[[Entry], bytes]
    _folders: set[str] | None = field(default=None, repr=False)
    _links: dict[str, str] = field(default_factory=dict, repr=False)

    @cached_property
    def has_links(self) -> bool:
        """True if one of the files is a link."""
        return any(entry.mode == SYMLINK for entry in self.entries.values())

    def not_plain(self, paths: Set[str]) -> set[str]:
        """Those of `paths` by which git knows no file: links, folders, what is behind a link."""
        found = paths - self.entries.keys()
        if self.has_links:
            found |= {p for p in paths - found if self.entries[p].mode == SYMLINK}
        return {*found}

    def text(self, path: str) -> str | None:
        """Content of the file at `path`, links followed; None if there is no such file."""
        found = self.resolve(path)
        entry = self.entries.get(found) if found is not None else None
        if entry is None or entry.mode in (SYMLINK, SUBMODULE):
            return None
        return self.read(entry).decode(errors="surrogateescape")

    def is_file(self, path: str) -> bool:
        """True if `path` is a file, links followed."""
        found = self.resolve(path)
        return found is not None and found in self.entries

    def is_folder(self, path: str) -> bool:
        """True if `path` is a folder, links followed."""
        found = self.resolve(path)
        return found is not None and found in self._all_folders()

    def resolve(self, path: str) -> str | None:
        """`path` with every link inside the tree followed; None if one leaves it, or for a loop."""
        return self._follow(path)[0]

    def outside(self, path: str) -> str | None:
        """`path`, or the first path below it, if links lead from there out of the tree.

        What is there has no identity here. None if all of it is in the tree.
        """
        found, left = self._follow(path)
        if found is None:
            return path if left else None
        if found in self.entries or found not in self._all_folders():
            return None
        return next((p for p in self.below(found) if self._follow(p)[1]), None)

    def _follow(self, path: str) -> tuple[str | None, bool]:
        """What `path` leads to, None if to nothing in the tree, and whether it leaves the tree."""
        done = ""
        rest = [part for part in path.split("/") if part not in ("", ".")]
        followed = 0
        while rest:
            step = rest.pop(0)
            here = posixpath.normpath(posixpath.join(done, step))
            if here == ".." or here.startswith("../"):
                return None, True
            entry = self.entries.get(here)
            if entry is None or entry.mode != SYMLINK:
                done = "" if here == "." else here
                continue
            followed += 1
            target = self._target(here, entry)
            if followed > _LINK_LIMIT:
                return None, False
            if target.startswith("/"):
                return None, True
            rest = [part for part in target.split("/") if part not in ("", ".")] + rest
        return done, False

    def identity(self, path: str) -> str:
        """What tells one content at `path` from another.

        A file: its blob and mode. A link: its target too, with what it points to. A folder:
        everything below it. A missing file and a link out of the tree have identities as well.
        """
        return self._identity(path, ())

    def below(self, folder: str) -> Iterator[str]:
        """Paths of the files in `folder` and its subfolders, sorted."""
        start = f"{folder}/" if folder else ""
        return iter(sorted(path for path in self.entries if path.startswith(start)))

    def _identity(self, path: str, parents: tuple[str, ...]) -> str:
        entry = self.entries.get(path)
        link = f"->{self._target(path, entry)} " if entry and entry.mode == SYMLINK else ""
        found = self.resolve(path)
        if found is None:
            return f"{link}outside"
        real = self.entries.get(found)
        if real is not None:
            return f"{link}{real.mode} {real.object_id}"
        if found not in self._all_folders():
            return f"{link}missing"
        if found in parents:
            return f"{link}loop"
        digest = hashlib.sha256()
        for child in self.below(found):
            inner = self._identity(child, (*parents, found))
            digest.update(f"{child[len(found) :]}\0{inner}\0".encode(errors="surrogateescape"))
        return f"{link}folder {digest.hexdigest()}"

    def _target(self, path: str, entry: Entry) -> str:
        if path not in self._links:
            self._links[path] = self.read(entry).decode(errors="surrogateescape")
        return self._links[path]

    def _all_folders(self) -> set[str]:
        if self._folders is None:
            self._folders = {""}
            for path in self.entries:
                while path := posixpath.dirname(path):
                    if path in self._folders:
                        break
                    self._folders.add(path)
        return self._folders


def changed_paths(base: FileTable, head: FileTable) -> list[str]:
    """Paths whose entry differs between the two, sorted: added, deleted, edited, mode, link."""
    old, new = base.entries, head.entries
    # Most of them are the same object, which is seen sooner than that they are equal.
    found = [p for p, entry in new.items() if (b := old.get(p)) is not entry and b != entry]
    return sorted([*found, *(old.keys() - new.keys())])
