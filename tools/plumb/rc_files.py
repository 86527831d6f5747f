"""Reads what the .bazelrc files of a tree set, under any config, as far as it reaches targets."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field

from tools.plumb.files import FileTable
from tools.plumb.graph import canonical

RC_FILE = ".bazelrc"
_WORKSPACE = "%workspace%/"
# Their values, after a repository's name if there is one, are folders from the workspace's root.
_FOLDER_OPTIONS = (
    "--override_repository",
    "--override_module",
    "--inject_repository",
    "--vendor_dir",
    "--distdir",
)


@dataclass
class RcOptions:
    """paths: the .bazelrc files, and files and folders of the tree that options name.

    labels: targets that options name, such as a platform.
    flags: a Starlark flag's label to the labels that it is set to.
    configs: names that are defined for --config.
    overrides: a repository that an option replaces, to its folder.
    """

    paths: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    flags: dict[str, set[str]] = field(default_factory=dict)
    configs: set[str] = field(default_factory=set)
    overrides: dict[str, str] = field(default_factory=dict)


def read(files: FileTable) -> RcOptions:
    """The options of .bazelrc and of what it imports."""
    found = RcOptions()
    _read_file(files, RC_FILE, found)
    return found


def _read_file(files: FileTable, path: str, found: RcOptions) -> None:
    if path in found.paths or not files.is_file(path):
        return
    found.paths.add(path)
    for line in (files.text(path) or "").replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        if words and words[0] in ("import", "try-import"):
            for imported in words[1:]:
                _read_file(files, imported.removeprefix(_WORKSPACE), found)
        elif words:
            found.configs |= {config} if (config := words[0].partition(":")[2]) else set()
            _read_options(words[1:], found)
            _read_paths(words[1:], files, found)


def _read_options(words: list[str], found: RcOptions) -> None:
    for word in words:
        option, _, value = word.partition("=")
        if option.startswith(("--//", "--@")):
            values = found.flags.setdefault(canonical(option.removeprefix("--")), set())
            values |= {canonical(value)} if "//" in value else set()
        else:
            parts = (value or word).split(",")
            found.labels |= {canonical(part) for part in parts if part.startswith(("//", "@//"))}


def _read_paths(words: list[str], files: FileTable, found: RcOptions) -> None:
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.partition("=")
        if before in _FOLDER_OPTIONS:
            option, value = before, word
        if option in _FOLDER_OPTIONS:
            name, _, folder = value.rpartition("=")
            folder = posixpath.normpath(folder.removeprefix(_WORKSPACE))
            if _is_there(folder, files):
                found.paths.add(folder)
                found.overrides |= {name: folder} if name else {}
            continue
        for rest in word.split(_WORKSPACE)[1:]:
            # A value may be a list, or go on after the path.
            paths = {posixpath.normpath(path) for path in (rest, re.split("[,:;]", rest)[0])}
            found.paths |= {path for path in paths if _is_there(path, files)}


def _is_there(path: str, files: FileTable) -> bool:
    if path == "." or path.startswith("/"):
        return False
    return files.is_file(path) or files.is_folder(path) or files.outside(path) == path
