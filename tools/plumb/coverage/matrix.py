"""The matrix of claims and cells with what each costs, as a value that every format prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.plumb.cells.missing import Missing, explain
from tools.plumb.cells.model import CADENCES, Cell, Claim, Model, Test, arch_order
from tools.plumb.coverage.select import Selection


@dataclass(frozen=True)
class Cost:
    """What tests cost. without_seconds: how many of them declare no time."""

    tests: int
    seconds: int
    gpu_seconds: int
    without_seconds: int


def cost(tests: Iterable[Test]) -> Cost:
    """The cost of running each of the tests once."""
    ones = list({test.label: test for test in tests}.values())
    return Cost(
        len(ones),
        sum(test.seconds or 0 for test in ones),
        sum(test.gpu_seconds for test in ones),
        sum(test.seconds is None for test in ones),
    )


@dataclass(frozen=True)
class Entry:
    """A cell of the matrix.

    tests: those that cover it, of those that are shown. missing: why nothing covers it, judged by
    every test; None if something does.
    """

    cell: Cell
    demanded: bool
    tests: tuple[Test, ...]
    missing: Missing | None


@dataclass(frozen=True)
class Row:
    """A claim. alone: of the tests that cover it, the cost of those that cover nothing else."""

    claim: Claim
    entries: tuple[Entry, ...]
    alone: Cost

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """The tests that cover one of its cells, sorted by label."""
        found = {test.label: test for entry in self.entries for test in entry.tests}
        return tuple(found[label] for label in sorted(found))

    @cached_property
    def cost(self) -> Cost:
        """What those tests cost, whatever else they cover."""
        return cost(self.tests)


@dataclass(frozen=True)
class Matrix:
    """Rows by claim, and the tests that are shown."""

    rows: tuple[Row, ...]
    tests: tuple[Test, ...]

    @property
    def entries(self) -> list[Entry]:
        """Every cell, row by row."""
        return [entry for row in self.rows for entry in row.entries]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(architecture, cadence) of every cell: cpu first, the most frequent first."""
        found = {(entry.cell.arch, entry.cell.cadence) for entry in self.entries}
        return sorted(found, key=lambda column: (arch_order(column[0]), _rank(column[1])))

    @property
    def missing(self) -> list[Missing]:
        """The demanded cells that nothing covers."""
        return [entry.missing for entry in self.entries if entry.missing is not None]

    @property
    def demanded(self) -> int:
        """How many of the cells are demanded."""
        return sum(entry.demanded for entry in self.entries)

    def only_missing(self) -> Matrix:
        """The rows and cells that are missing alone."""
        rows = []
        for row in self.rows:
            entries = tuple(entry for entry in row.entries if entry.missing is not None)
            rows += [Row(row.claim, entries, row.alone)] if entries else []
        return Matrix(tuple(rows), self.tests)


def build(model: Model, selection: Selection) -> Matrix:
    """The matrix of what is selected."""
    shown = {test.label for test in selection.tests}
    rows = []
    for name, cells in _by_claim(selection.cells).items():
        entries = tuple(_entry(model, cell, shown) for cell in cells)
        covering = [test for entry in entries for test in entry.tests]
        alone = cost(test for test in covering if set(test.covers) == {name})
        rows.append(Row(model.claims[name], entries, alone))
    return Matrix(tuple(rows), selection.tests)


def _entry(model: Model, cell: Cell, shown: set[str]) -> Entry:
    covering = model.covering(cell)
    tests = tuple(test for test in covering if test.label in shown)
    missing = None if covering else explain(model, cell)
    return Entry(cell, cell in model.demanded, tests, missing)


def _by_claim(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.claim, []).append(cell)
    return found


def _rank(cadence: str) -> tuple[int, str]:
    return (CADENCES.index(cadence) if cadence in CADENCES else len(CADENCES), cadence)
