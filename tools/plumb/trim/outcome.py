"""What a change does to the coverage cells: lost, weakened, kept and by whom, won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tools.plumb.cells.missing import Lack, Missing, explain
from tools.plumb.cells.model import Cell, Model, Test
from tools.plumb.trim.change import Change

# What remains for a cell of these asserts nothing there.
_NOTHING_LEFT = (Lack.NOTHING, Lack.NEVER_RUNS, Lack.SKIPPED)


class State(StrEnum):
    """What becomes of a cell."""

    LOST = "lost"
    WEAKENED = "weakened"
    KEPT = "kept"
    WON = "won"
    STILL_MISSING = "still missing"


@dataclass(frozen=True)
class CellChange:
    """A cell that the change touches, or that is demanded and missing.

    before, after: the tests that cover it. missing: why nothing does afterwards; else None.
    """

    cell: Cell
    state: State
    before: tuple[Test, ...]
    after: tuple[Test, ...]
    missing: Missing | None = None

    @property
    def is_loss(self) -> bool:
        """True if it was covered, and is not any more."""
        return self.state in (State.LOST, State.WEAKENED)


class Verdict(StrEnum):
    """What is to be said of a dropped test."""

    SAFE = "safe"
    WEAKENS = "weakens"
    LOSES = "loses"
    NEVER_RAN = "never ran"
    NO_CLAIM = "no claim"


@dataclass(frozen=True)
class Dropped:
    """A test that goes, and what becomes of each cell that it covered."""

    test: Test
    verdict: Verdict
    cells: tuple[CellChange, ...]


def cell_changes(before: Model, after: Model, change: Change) -> list[CellChange]:
    """Each cell that a test of the change covers before or after, or that is missing afterwards.

    Sorted by cell. Cells that the change does not touch and that are covered are left out.
    """
    touched = {*change.goes, *change.add, *(merge.labels[0] for merge in change.merges)}
    found = []
    for cell in sorted({*before.cells, *after.cells}, key=lambda cell: cell.order):
        old, new = before.covering(cell), after.covering(cell)
        if not any(test.label in touched for test in (*old, *new)) and new:
            continue
        if new:
            found.append(CellChange(cell, State.KEPT if old else State.WON, old, new))
            continue
        missing = explain(after, cell)
        state = State.STILL_MISSING
        if old:
            missing = _of_what_remains(missing)
            state = State.LOST if missing.reason in _NOTHING_LEFT else State.WEAKENED
        found.append(CellChange(cell, state, old, (), missing))
    return found


def _of_what_remains(missing: Missing) -> Missing:
    """The same, told by the tests that still assert something, if there is any."""
    near = sorted(missing.near, key=lambda one: any(lack in _NOTHING_LEFT for lack in one.lacks))
    return replace(missing, reason=near[0].lacks[0], near=tuple(near)) if near else missing


def dropped(before: Model, change: Change, changes: Sequence[CellChange]) -> list[Dropped]:
    """A verdict on each test that goes, in the order of the change."""
    found = []
    for label in change.goes:
        test = before.tests[label]
        cells = tuple(c for c in changes if any(t.label == label for t in c.before))
        found.append(Dropped(test, _verdict(test, cells), cells))
    return found


def _verdict(test: Test, cells: Sequence[CellChange]) -> Verdict:
    if not test.runs:
        return Verdict.NEVER_RAN
    if not test.covers:
        return Verdict.NO_CLAIM
    states = {cell.state for cell in cells}
    if State.LOST in states:
        return Verdict.LOSES
    return Verdict.WEAKENS if State.WEAKENED in states else Verdict.SAFE
