"""Dominated tests: all that they cover is covered by cheaper ones."""

from __future__ import annotations

from tools.plumb.cells.model import Cell, Model, Test
from tools.plumb.trim.propose.candidate import Candidate, Kind, cost


def candidates(model: Model) -> list[Candidate]:
    """A candidate for each test that covers cells of which every one has a cheaper cover."""
    found = []
    for _, test in sorted(model.tests.items()):
        cells = [cell for cell in test.given() if model.covers(test, cell)]
        others = {cell: _cheapest(model, test, cell) for cell in cells}
        if cells and all(others.values()):
            found.append(_candidate(test, {c: other for c, other in others.items() if other}))
    return sorted(found, key=lambda c: (-c.gpu_seconds, -c.seconds, c.tests))


def _cheapest(model: Model, test: Test, cell: Cell) -> Test | None:
    """The cheapest test beside this one that covers the cell and costs less."""
    cheaper = [
        other
        for other in model.covering(cell)
        if other.label != test.label and cost(other) < cost(test) and other.seconds is not None
    ]
    return min(cheaper, key=lambda other: (cost(other), other.label), default=None)


def _candidate(test: Test, others: dict[Cell, Test]) -> Candidate:
    used = {other.label: other for other in others.values()}
    together = sum(other.gpu_seconds for other in used.values())
    lines = [
        f"{cell}: {other.label}, {_said(other)} ({other.level or 'no level'})"
        for cell, other in others.items()
    ]
    return Candidate(
        Kind.DOMINATED,
        f"{test.label} ({_said(test)}) covers nothing that cheaper tests do not",
        (test.label, *sorted(used)),
        test.seconds or 0,
        test.gpu_seconds,
        (*lines, f"what covers it takes {together} GPU-s together, and runs anyway"),
    )


def _said(test: Test) -> str:
    return f"{test.seconds or 0} s" + (f" on {test.gpus} GPUs" if test.gpus > 1 else "")
