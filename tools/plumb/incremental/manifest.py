"""What Bazel reads to load each package, so that an edit needs only the packages that it reaches.

A package is made of its BUILD file, of the names of the files and packages that its globs can find,
and of the .bzl files that it loads. All else that loading reads can reach every package.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tools.plumb.graph import source_path
from tools.plumb.steering import inputs
from tools.plumb.trees.files import SUBMODULE, SYMLINK, Entry, FileTable

# Every BUILD file loads it where it is there, without saying so.
PRELUDE = "tools/build_rules/prelude_bazel"
# Of .bazelrc, the lines that reach `bazel query`.
_QUERY_COMMANDS = ("startup", "always", "common", "query")


@dataclass(frozen=True)
class Manifest:
    """Digests of what Bazel reads.

    rest: of what every package may depend on. locks: of the locks of wheels, from which other
    repositories write .bzl files.
    packages: package, such as //a/b, to what it alone is read from. loaded: path of each file that
    a package may load, to its identity.
    """

    rest: str
    locks: str
    packages: Mapping[str, str]
    loaded: Mapping[str, str]

    def fields(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)

    def digest(self) -> str:
        """Of all of it."""
        parts = [self.rest, self.locks]
        for mapping in (self.packages, self.loaded):
            parts += [text for item in sorted(mapping.items()) for text in item]
        return _digest(parts)


def of_tree(files: FileTable, steering: inputs.SteeringInputs) -> Manifest:
    """The manifest of a tree."""
    loaded = {p: files.identity(p) for p in files.entries if inputs.is_loaded_file(p)}
    rest = [*_steering(steering), *_linked(files)]
    if PRELUDE in files.entries:
        rest += [files.identity(PRELUDE), *_flat(loaded)]
    locks = {f"{hub} {path}": files.identity(path) for hub, path in steering.locks.items()}
    return Manifest(_digest(rest), _digest(_flat(locks)), _packages(files), loaded)


def _steering(steering: inputs.SteeringInputs) -> Iterator[str]:
    """What steers the loading of packages, by what it says as far as that is known."""
    apart = {*steering.rc_files, *inputs.WORKSPACE_FILES}
    yield from _flat(steering.identities)
    yield from _flat(steering.repositories)
    yield from _flat({path: text for path, text in steering.loaded.items() if path not in apart})
    for line in steering.options:
        if line.command in _QUERY_COMMANDS:
            yield from (f"{line.command}:{line.config}", *line.words)


def reached(old: Manifest, loads: Mapping[str, tuple[str, ...]], new: Manifest) -> set[str] | None:
    """Packages of either that `new` may load otherwise than `old`; None if any may be.

    loads: the .bzl files that each package of `old` loads, as Bazel said.
    """
    if old.rest != new.rest:
        return None
    found = {n for n in old.packages.keys() | new.packages.keys() if _differ(old, new, n)}
    # A file below a package that came or went may be out of reach, or within it again.
    moved = {package[2:] for package in old.packages.keys() ^ new.packages.keys()}
    paths = old.loaded.keys() | new.loaded.keys()
    changed = {p for p in paths if old.loaded.get(p) != new.loaded.get(p) or _is_below(p, moved)}
    if not changed and old.locks == new.locks:
        return found
    return found | {name for name, labels in loads.items() if _reaches(old, new, labels, changed)}


def _reaches(old: Manifest, new: Manifest, labels: Iterable[str], changed: set[str]) -> bool:
    written = old.locks != new.locks and any(label.startswith("@") for label in labels)
    return written or any(source_path(label) in changed for label in labels)


def _differ(old: Manifest, new: Manifest, package: str) -> bool:
    return old.packages.get(package) != new.packages.get(package)


def _is_below(path: str, folders: set[str]) -> bool:
    while path and folders:
        path = posixpath.dirname(path)
        if path in folders:
            return True
    return False


def _packages(files: FileTable) -> dict[str, str]:
    """What each package is read from: its own files' names, its BUILD file, the packages below."""
    folders: dict[str, list[str]] = {}
    packages = set()
    for path, entry in files.entries.items():
        folder, _, name = path.rpartition("/")
        names = folders.setdefault(folder, [])
        names.append(path)
        if name in inputs.BUILD_FILES:
            packages.add(folder)
            # It may be a link: what counts is what Bazel finds behind it.
            names.append(f"\0{files.identity(path)}")
        elif entry.mode in (SYMLINK, SUBMODULE):
            names.append(_kind(files, path, entry))
    parts: dict[str, list[str]] = {folder: [] for folder in packages}
    for folder, names in folders.items():
        package = _nearest(folder, packages)
        if package is not None:
            parts[package] += names
        if folder in packages and folder:
            # subpackages() names it, and globs see the folders on the way to it.
            above = _nearest(folder.rpartition("/")[0], packages)
            if above is not None:
                parts[above].append(f"\0package {folder}")
    return {f"//{folder}": _digest(names) for folder, names in parts.items()}


def _nearest(folder: str, packages: set[str]) -> str | None:
    """The package that a folder's files are of."""
    while folder and folder not in packages:
        folder = folder.rpartition("/")[0]
    return folder if folder in packages else None


def _kind(files: FileTable, path: str, entry: Entry) -> str:
    there: object = ()
    if entry.mode == SYMLINK:
        there = files.is_file(path), files.is_folder(path), files.outside(path)
    return f"\0{entry.object_id} {there}"


def _linked(files: FileTable) -> Iterator[str]:
    """What loading may read through links to folders, which reach into other packages."""
    for path, entry in sorted(files.entries.items()) if files.has_links else ():
        found = files.resolve(path) if entry.mode == SYMLINK else None
        if found is not None and files.is_folder(found):
            yield path
            for inside in files.below(found):
                yield inside
                if inputs.is_build_file(inside) or inputs.is_loaded_file(inside):
                    yield files.identity(inside)


def _flat(mapping: Mapping[str, str]) -> Iterator[str]:
    for path, identity in sorted(mapping.items()):
        yield path
        yield identity


def _digest(parts: Iterable[str]) -> str:
    text = "\0".join(parts)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
