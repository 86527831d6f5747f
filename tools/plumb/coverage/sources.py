"""Where a test is written: the line of each test function in its sources."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tools.plumb.cells.model import Test
from tools.plumb.graph import source_path

_FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A source of a test. functions: (line, name) of each test function; empty if none is seen."""

    path: str
    functions: tuple[tuple[int, str], ...] = ()

    @property
    def place(self) -> str:
        """'path:line' of the first test function, or the path."""
        return f"{self.path}:{self.functions[0][0]}" if self.functions else self.path


def sources(test: Test, text: Callable[[str], str | None]) -> tuple[Source, ...]:
    """The sources of a test that hold test functions; all of them if none does.

    text: gives a file's content by its path in the workspace, None if it is not there.
    """
    paths = [path for label in test.srcs if (path := source_path(label))]
    found = [Source(path, _functions(text(path) or "")) for path in paths]
    return tuple(source for source in found if source.functions) or tuple(found)


def _functions(content: str) -> tuple[tuple[int, str], ...]:
    found = []
    line, seen = 1, 0
    for match in _FUNCTION.finditer(content):
        line += content.count("\n", seen, match.start(1))
        seen = match.start(1)
        found.append((line, match[1]))
    return tuple(found)
