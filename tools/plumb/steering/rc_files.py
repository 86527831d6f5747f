"""Reads what the .bazelrc files of a tree set, under any config, as far as it reaches targets."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from tools.plumb.graph import canonical
from tools.plumb.options import rc
from tools.plumb.trees.files import FileTable

# Their values, after a repository's name if there is one, are folders from the workspace's root.
_FOLDER_OPTIONS = (
    "--override_repository",
    "--override_module",
    "--inject_repository",
    "--vendor_dir",
    "--distdir",
)

_REPOSITORY = re.compile(r"@{1,2}([\w.~+-]+)//")


@dataclass
class RcOptions:
    """lines: of all .bazelrc files, whose paths are `files`.

    paths: files and folders of the tree that options name.
    labels: targets that options name, such as a platform.
    repositories: external ones that options name, but for what sets a flag.
    configs: names that are defined for --config.
    overrides: a repository that an option replaces, to its folder.
    """

    lines: list[rc.Line] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    repositories: set[str] = field(default_factory=set)
    configs: set[str] = field(default_factory=set)
    overrides: dict[str, str] = field(default_factory=dict)


def read(files: FileTable) -> RcOptions:
    """The options of .bazelrc and of what it imports."""
    found = RcOptions()
    found.lines, found.files = rc.read(files)
    for line in found.lines:
        found.configs |= {line.config} if line.config else set()
        words = [word for word in line.words if not word.startswith(("--//", "--@"))]
        for word in words:
            parts = (word.partition("=")[2] or word).split(",")
            found.labels |= {canonical(part) for part in parts if part.startswith(("//", "@//"))}
            found.repositories |= set(_REPOSITORY.findall(word))
        _read_paths(words, files, found)
    return found


def _read_paths(words: list[str], files: FileTable, found: RcOptions) -> None:
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.partition("=")
        if before in _FOLDER_OPTIONS:
            option, value = before, word
        if option in _FOLDER_OPTIONS:
            name, _, folder = value.rpartition("=")
            folder = posixpath.normpath(folder.removeprefix(rc.WORKSPACE))
            if _is_there(folder, files):
                found.paths.add(folder)
                found.overrides |= {name: folder} if name else {}
            continue
        for rest in word.split(rc.WORKSPACE)[1:]:
            # A value may be a list, or go on after the path.
            paths = {posixpath.normpath(path) for path in (rest, re.split("[,:;]", rest)[0])}
            found.paths |= {path for path in paths if _is_there(path, files)}


def _is_there(path: str, files: FileTable) -> bool:
    if path == "." or path.startswith("/"):
        return False
    return files.is_file(path) or files.is_folder(path) or files.outside(path) == path
