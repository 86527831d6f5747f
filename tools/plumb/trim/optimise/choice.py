"""Chooses: what stays and goes, by which proof, and what each claim costs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np

from tools.plumb.cells.model import Model
from tools.plumb.trim.change import Change, Merge
from tools.plumb.trim.optimise import budget as budgets
from tools.plumb.trim.optimise.cover import Solver
from tools.plumb.trim.optimise.prices import prices
from tools.plumb.trim.optimise.problem import Column, Matrix, Problem, of_model
from tools.plumb.trim.optimise.result import Choice, Price, Proof, Wish


class _Solved(Protocol):
    @property
    def gap(self) -> float: ...

    @property
    def proven(self) -> bool: ...

    @property
    def nodes(self) -> int: ...


def choose(model: Model, merges: Collection[Merge], wish: Wish) -> Choice:
    """The cheapest tests that keep every cell, or the most weighted cells within the budget.

    merges: tests that may become one. Raises PlumbError if there is nothing to keep, or if the
    budget does not pay for what has to be kept.
    """
    problem = of_model(model, merges, wish.waived, wish.weights, wish.keep)
    if wish.budget is not None:
        within = budgets.most(problem, wish.budget, wish.seconds)
        proof = _proof(problem, "weight of cells", within.weight, within.bound, within)
        return _choice(model, problem, within.chosen, within.kept, proof)
    solver = Solver(problem, wish.seconds)
    best = solver.cover(np.zeros(len(problem.cells), bool))
    proof = _proof(problem, "GPU-seconds and CPU-seconds", best.cost, best.bound, best)
    found, unpriced = prices(solver, best, wish.seconds)
    every: Matrix = np.ones(len(problem.cells), bool)
    return _choice(model, problem, best.chosen, every, proof, tuple(found), unpriced)


def _proof(problem: Problem, goal: str, value: int, bound: float, found: _Solved) -> Proof:
    rows, columns = problem.covers.shape
    return Proof(goal, value, bound, found.gap, found.proven, found.nodes, rows, columns)


def _choice(
    model: Model,
    problem: Problem,
    chosen: Matrix,
    kept: Matrix,
    proof: Proof,
    found: tuple[Price, ...] = (),
    unpriced: int = 0,
) -> Choice:
    columns = [c for c, taken in zip(problem.columns, chosen, strict=True) if taken]
    merged = [column for column in columns if len(column.labels) > 1]
    stays = {label for column in columns for label in column.labels}
    candidates = {label for column in problem.columns for label in column.labels}
    return Choice(
        Change(
            tuple(sorted(candidates - stays)),
            tuple(Merge(column.labels, column.seconds) for column in _disjoint(merged)),
        ),
        proof,
        sum(column.gpu_seconds for column in columns),
        sum(column.seconds for column in columns if not column.on_gpu),
        int(kept.sum()),
        tuple(cell for cell, stays_so in zip(problem.cells, kept, strict=True) if not stays_so),
        tuple(sorted(label for label in candidates if model.tests[label].seconds is None)),
        found,
        unpriced,
        int(problem.weights.sum()),
    )


def _disjoint(merged: list[Column]) -> list[Column]:
    used: set[str] = set()
    found = []
    for column in sorted(merged, key=lambda c: c.labels):
        if used.isdisjoint(column.labels):
            used |= {*column.labels}
            found.append(column)
    return found
