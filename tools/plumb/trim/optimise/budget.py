"""The most weighted cells that a budget of GPU-seconds pays for, and the cheapest way to them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import LinearConstraint
from scipy.sparse import csr_array, hstack, identity

from tools.plumb.errors import PlumbError
from tools.plumb.trim.optimise.cover import solve
from tools.plumb.trim.optimise.problem import Costs, Floats, Matrix, Problem


@dataclass(frozen=True)
class Within:
    """A choice within the budget.

    chosen: (columns,). kept: (rows,) cells covered. weight: of these. bound: no choice within the
    budget can be worth more.
    """

    chosen: Matrix
    kept: Matrix
    weight: int
    bound: float
    nodes: int

    @property
    def proven(self) -> bool:
        """Weights are whole numbers."""
        return self.bound < self.weight + 1 - 1e-6

    @property
    def gap(self) -> float:
        """(bound - weight) / weight."""
        return max(0.0, (self.bound - self.weight) / self.weight) if self.weight else 0.0


def most(problem: Problem, budget: int, seconds: float) -> Within:
    """The choice of largest weight whose GPU-seconds stay within the budget.

    CPU tests take no GPU-second, and are all counted as chosen. Of choices that are worth the same
    the one of fewest GPU-seconds is taken. Raises PlumbError for a negative budget.
    """
    if budget < 0:
        raise PlumbError(f"--budget {budget}: wanted GPU-seconds of 0 or more.")
    on_gpu = np.array([column.on_gpu for column in problem.columns], bool)
    needed = int(problem.costs[problem.kept & on_gpu].sum())
    if needed > budget:
        raise PlumbError(
            f"--budget {budget}: what has to be kept takes {needed} GPU-seconds; give a budget of "
            "at least that, or keep less."
        )
    deadline = time.monotonic() + seconds
    free = problem.covers[:, ~on_gpu].any(axis=1)
    rows, weights = _grouped(problem, ~free, on_gpu)
    chosen = ~on_gpu
    nodes, bound = 0, float(problem.weights[free].sum())
    if len(weights):
        costs = problem.costs[on_gpu].astype(float)
        x, part_bound, nodes = _solve(
            rows, weights, costs, budget, problem.kept[on_gpu].astype(float), deadline
        )
        chosen[np.flatnonzero(on_gpu)[x > 0.5]] = True
        bound += part_bound
    kept = problem.covers[:, chosen].any(axis=1)
    return Within(chosen, kept, int(problem.weights[kept].sum()), bound, nodes)


def _grouped(problem: Problem, wanted: Matrix, on_gpu: Matrix) -> tuple[Matrix, Floats]:
    """Rows that the same columns cover are one, of their weights together."""
    rows = problem.covers[wanted][:, on_gpu]
    if not len(rows):
        return rows, np.zeros(0)
    unique, which = np.unique(rows, axis=0, return_inverse=True)
    weights = np.zeros(len(unique))
    np.add.at(weights, which.ravel(), problem.weights[wanted])
    return unique, weights


def _solve(
    rows: Matrix,
    weights: Floats,
    costs: Floats,
    budget: int,
    least: Floats,
    deadline: float,
) -> tuple[Costs, float, int]:
    """(x of the columns, bound of the weight, nodes)."""
    count, columns = rows.shape
    # Variables: a column is kept; a row is covered, which takes one of its columns.
    covered = hstack([csr_array(rows.astype(float)), -identity(count, format="csr")])
    price = np.concatenate([costs, np.zeros(count)])
    worth = np.concatenate([np.zeros(columns), weights])
    constraints = [
        LinearConstraint(csr_array(covered), 0, np.inf),
        LinearConstraint(price[None, :], -np.inf, float(budget)),
    ]
    least = np.concatenate([least, np.zeros(count)])
    x, bound, nodes = solve(-worth, constraints, deadline, least)
    best = round(float(worth @ x))
    constraints.append(LinearConstraint(worth[None, :], best - 0.5, np.inf))
    cheapest, _, more = solve(price, constraints, deadline, least)
    return cheapest[:columns], -bound, nodes + more
