"""The sources of a workspace's tests: read, parsed and analysed once, when asked for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from tools.plumb.cells.model import Model, Test
from tools.plumb.graph import source_path
from tools.plumb.trim.source.cases import Collected, collect
from tools.plumb.trim.source.launch import Launch, launches
from tools.plumb.trim.source.shape import Shape, shape
from tools.plumb.trim.source.syntax import parse


class Sources:
    """Python sources by path.

    read: content of a file by its path in the workspace; None if it is not to be read.
    """

    def __init__(self, model: Model, read: Callable[[str], str | None]) -> None:
        self._model = model
        self._read = read
        self._trees: dict[str, ast.Module | None] = {}
        self._shapes: dict[str, Shape] = {}

    def of(self, test: Test) -> list[str]:
        """Paths of the files of the test in which pytest or unittest looks for cases."""
        paths = [source_path(label) or "" for label in test.srcs]
        return [path for path in paths if is_test_file(path)]

    @cached_property
    def tests(self) -> Mapping[str, tuple[Test, ...]]:
        """Path of each test file to the tests that list it, sorted."""
        found: dict[str, list[Test]] = defaultdict(list)
        for _, test in sorted(self._model.tests.items()):
            for path in self.of(test):
                found[path].append(test)
        return {path: tuple(tests) for path, tests in sorted(found.items())}

    def tree(self, path: str) -> ast.Module | None:
        """The syntax tree; None if there is no such file. Raises PlumbError for no Python."""
        if path not in self._trees:
            text = self._read(path)
            self._trees[path] = None if text is None else parse(text, path)
        return self._trees[path]

    def shape(self, path: str) -> Shape | None:
        """The shape; None if there is no such file."""
        tree = self.tree(path)
        if tree is None:
            return None
        if path not in self._shapes:
            self._shapes[path] = shape(tree, path)
        return self._shapes[path]

    def launches(self, path: str) -> list[Launch]:
        """The servers that the file starts."""
        tree = self.tree(path)
        return [] if tree is None else launches(tree)

    def cases(self, path: str) -> Collected | None:
        """The cases of the file; None if there is no such file."""
        tree = self.tree(path)
        return None if tree is None else collect(tree)


def is_test_file(path: str) -> bool:
    """True for `*_test.py` and `test_*.py`."""
    name = PurePosixPath(path).name
    return name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py"))
