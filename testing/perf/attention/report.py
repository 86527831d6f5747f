"""Tables in Markdown that are printed row by row, and kept in a file as well.

A run may be stopped, and a log be cut: what was measured till then is not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class Report:
    """What a benchmark says.

    Args:
        path: a file that is written anew; None keeps nothing.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else path.open("w", encoding="utf-8")
        self._heads: Sequence[str] = ()

    def say(self, text: str = "") -> None:
        """A line of its own, with an empty one behind it; it ends a table."""
        if self._heads:
            self._heads = ()
            self._write("")
        self._write(f"{text}\n")

    def row(self, heads: Sequence[str], cells: Sequence[str]) -> None:
        """A row of the table with these heads, which are written before its first."""
        if heads != self._heads:
            if self._heads:
                self._write("")
            self._heads = heads
            self._write(_line(heads))
            self._write(_line(["---"] * len(heads)))
        self._write(_line(cells))

    def _write(self, line: str) -> None:
        print(line, flush=True)
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
