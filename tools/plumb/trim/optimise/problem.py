"""The choice of tests as a set-covering problem: columns are tests or merges, rows are cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.plumb.cells.model import Cell, Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.trim.change import Merge, merged_test

Matrix: TypeAlias = NDArray[np.bool_]
Costs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """Something that can be kept: a test, or tests merged into one.

    labels: the tests that it stands for. seconds: undeclared ones count as 0.
    """

    labels: tuple[str, ...]
    pool: str
    seconds: int
    gpu_seconds: int

    @property
    def cost(self) -> int:
        """GPU-seconds; on the CPU seconds. No cell can be had from either."""
        return self.gpu_seconds or self.seconds

    @property
    def on_gpu(self) -> bool:
        """True if it costs GPU-seconds."""
        return self.gpu_seconds > 0


@dataclass(frozen=True)
class Problem:
    """Which columns cover which rows.

    covers: (rows, columns). weights: (rows,) what each cell is worth, for a budget.
    kept: (columns,) those that have to stay.
    """

    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    covers: Matrix
    weights: Costs
    kept: Matrix

    @cached_property
    def costs(self) -> Costs:
        """(columns,)."""
        costs: Costs = np.array([column.cost for column in self.columns], np.int64)
        return costs

    @cached_property
    def claims(self) -> Mapping[str, Matrix]:
        """Each claim, sorted, to (rows,) True for its cells."""
        names = np.array([cell.claim for cell in self.cells])
        return {str(name): names == name for name in np.unique(names)}


def of_model(
    model: Model,
    merges: Iterable[Merge] = (),
    waived: Collection[Cell] = (),
    weights: Mapping[str, int] | None = None,
    keep: Collection[str] = (),
) -> Problem:
    """The problem of keeping every cell that the model's tests cover, but waived ones.

    Tests that cover nothing are no part of it, unless they are in `keep`, which stay in any case.
    weights: of claims' cells for a budget; 1 elsewhere.
    Raises PlumbError if there is nothing to keep.
    """
    tests = [test for _, test in sorted(model.tests.items()) if test.runs]
    cells = [cell for cell in model.cells if cell not in waived and model.covering(cell)]
    if not cells:
        raise PlumbError("no test that runs covers any claim: there is nothing to keep.")
    options: list[tuple[tuple[str, ...], Test]] = [
        ((test.label,), test) for test in tests if test.covers or test.label in keep
    ]
    options += [(merge.labels, merged_test(model, merge)) for merge in merges]
    by_claim: dict[str, list[int]] = {}
    for number, (_, test) in enumerate(options):
        for claim in test.covers:
            by_claim.setdefault(claim, []).append(number)
    covers: Matrix = np.zeros((len(cells), len(options)), bool)
    for row, cell in enumerate(cells):
        for number in by_claim.get(cell.claim, ()):
            covers[row, number] = model.covers(options[number][1], cell)
    kept: Matrix = np.array([len(o[0]) == 1 and o[0][0] in keep for o in options], bool)
    useful = covers.any(axis=0) | kept
    columns = [_column(*option) for option, used in zip(options, useful, strict=True) if used]
    worth = weights or {}
    return Problem(
        tuple(columns),
        tuple(cells),
        covers[:, useful],
        np.array([worth.get(cell.claim, 1) for cell in cells], np.int64),
        kept[useful],
    )


def _column(labels: tuple[str, ...], test: Test) -> Column:
    return Column(labels, test.pool, test.seconds or 0, test.gpu_seconds)
