"""The .bzl files that packages load, for those of which Bazel does not say it.

Of a package whose file is called BUILD, Bazel's graph says what it loads; of BUILD.bazel it says
nothing. There the load() statements are read, also those of the files that they name. What only
looks like one, in a comment or a string, counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tools.plumb.graph import canonical, package_of, source_path
from tools.plumb.steering import inputs
from tools.plumb.trees.files import FileTable

_LOAD = re.compile(
    r"""\bload\s*\((?:\s|\#[^\n]*\n)*[rR]?(?P<quote>"{3}|'{3}|"|')(?P<label>.*?)(?P=quote)""", re.S
)


@dataclass
class Loads:
    """The load() statements of one tree. own_names: by which labels can call its repository."""

    files: FileTable
    own_names: frozenset[str]
    _known: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    def of(self, packages: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Each of `packages`, such as //a/b, to the labels that it loads, by way of others too."""
        return {package: tuple(sorted(self._all(package))) for package in packages}

    def _all(self, package: str) -> set[str]:
        folder = package.removeprefix("//")
        names = (f"{folder}/{name}" if folder else name for name in inputs.BUILD_FILES)
        found: set[str] = set()
        todo = {label for path in names for label in self._loaded(path, package)}
        while todo:
            label = todo.pop()
            found.add(label)
            path = source_path(label)
            if path is not None:
                todo |= self._loaded(path, package_of(label)) - found
        return found

    def _loaded(self, path: str, package: str) -> frozenset[str]:
        if path not in self._known:
            text = self.files.text(path) or ""
            self._known[path] = frozenset(self._labels(text, package))
        return self._known[path]

    def _labels(self, text: str, package: str) -> Iterator[str]:
        for match in _LOAD.finditer(text):
            written = match["label"]
            if "\\" in written:
                # Spelled in a way that nobody uses: it may be any file.
                yield from (
                    f"//:{path}" for path in filter(inputs.is_loaded_file, self.files.entries)
                )
            elif written.startswith(":"):
                yield f"{package}{written}"
            elif "//" in written:
                repository, _, rest = written.partition("//")
                own = repository.lstrip("@") in self.own_names
                yield canonical(f"//{rest}" if own else written)
