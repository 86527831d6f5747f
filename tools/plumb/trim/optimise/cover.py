"""The cheapest columns that cover a set of rows: reduced, split into parts, solved by HiGHS."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.trim.optimise.problem import Costs, Floats, Matrix, Problem


@dataclass(frozen=True)
class Answer:
    """Columns that cover the rows.

    chosen: (columns,). cost: their sum. bound: no choice can cost less; from HiGHS' dual bounds.
    nodes: of its branch and bound. proven: cost equals the bound, in whole seconds.
    """

    chosen: Matrix
    cost: int
    bound: float
    nodes: int

    @property
    def proven(self) -> bool:
        """Costs are whole numbers: nothing lies between a bound above cost - 1 and the cost."""
        return self.bound > self.cost - 1 + 1e-6

    @property
    def gap(self) -> float:
        """(cost - bound) / cost."""
        return max(0.0, (self.cost - self.bound) / self.cost) if self.cost else 0.0


@dataclass
class Solver:
    """Solves covers of subsets of one problem's rows; parts that come again are known already.

    seconds: of all solves together.
    """

    problem: Problem
    seconds: float = 60.0
    _known: dict[bytes, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        covers = self.problem.covers.astype(np.float32)
        sizes = covers.sum(axis=1)
        shared = covers @ covers.T
        # implies[i, j]: what covers row i covers row j as well; of equal rows the first implies.
        self._implies: Matrix = shared == sizes[:, None]
        first = np.arange(len(sizes))
        same = self._implies & self._implies.T
        self._implies &= ~(same & (first[:, None] >= first[None, :]))
        self._implied: Costs = self._implies.sum(axis=0)
        self._alone: Matrix = sizes == 1
        self._deadline = time.monotonic() + self.seconds
        # Rows of two islands have no column in common: a change in one leaves the other alone.
        self._islands: Costs = connected_components(csr_array(shared), directed=False)[1]
        self._whole = {int(n): self._island(int(n), None) for n in np.unique(self._islands)}

    def cover(self, without: Matrix) -> Answer:
        """The cheapest columns for all rows but those of `without`: (rows,) bool."""
        changed = {int(number) for number in np.unique(self._islands[without])}
        answers = [answer for number, answer in self._whole.items() if number not in changed]
        answers += [self._island(number, without) for number in sorted(changed)]
        # Of columns that cover no row at all, those that have to stay.
        idle = self.problem.kept & ~self.problem.covers.any(axis=0)
        cost = int(self.problem.costs[idle].sum())
        return Answer(
            np.logical_or.reduce([idle, *(answer.chosen for answer in answers)]),
            cost + sum(answer.cost for answer in answers),
            cost + sum(answer.bound for answer in answers),
            sum(answer.nodes for answer in answers),
        )

    def _island(self, number: int, without: Matrix | None) -> Answer:
        """The cheapest columns for an island's rows but those of `without`."""
        own: Matrix = self._islands == number
        kept = self.problem.kept & self.problem.covers[own].any(axis=0)
        chosen, rows = self._forced(own & self._needed(without), kept)
        cost = int(self.problem.costs[chosen].sum())
        bound, nodes = float(cost), 0
        for part in self._parts(rows):
            answer = self._part(part)
            chosen = chosen | answer.chosen
            cost, bound = cost + answer.cost, bound + answer.bound
            nodes += answer.nodes
        return Answer(chosen, cost, bound, nodes)

    def _needed(self, without: Matrix | None) -> Matrix:
        """Rows that are not covered whenever another one is."""
        if without is None:
            needed: Matrix = self._implied == 0
            return needed
        implied = self._implied - self._implies[without].sum(axis=0)
        left: Matrix = ~without & (implied == 0)
        return left

    def _forced(self, rows: Matrix, kept: Matrix) -> tuple[Matrix, Matrix]:
        """Columns that have to stay or alone cover some row, and the rows that they leave."""
        covers = self.problem.covers
        chosen = kept | covers[rows & self._alone].any(axis=0)
        active = np.flatnonzero(rows)
        left = np.zeros_like(rows)
        left[active[~covers[np.ix_(active, np.flatnonzero(chosen))].any(axis=1)]] = True
        return chosen, left

    def _parts(self, rows: Matrix) -> list[Matrix]:
        """Sets of rows that share no column with one another."""
        active = np.flatnonzero(rows)
        if not len(active):
            return []
        covers = csr_array(self.problem.covers[active])
        count, labels = connected_components(covers @ covers.T, directed=False)
        parts = []
        for number in range(count):
            part = np.zeros_like(rows)
            part[active[labels == number]] = True
            parts.append(part)
        return parts

    def _part(self, rows: Matrix) -> Answer:
        key = rows.tobytes()
        if key not in self._known:
            self._known[key] = self._solve(rows)
        return self._known[key]

    def _solve(self, rows: Matrix) -> Answer:
        covers = self.problem.covers[rows]
        used = np.flatnonzero(covers.any(axis=0))
        costs = self.problem.costs[used]
        constraint = LinearConstraint(csr_array(covers[:, used].astype(float)), 1, np.inf)
        x, bound, nodes = solve(costs.astype(float), [constraint], self._deadline)
        chosen: Matrix = np.zeros(len(self.problem.columns), bool)
        chosen[used[x > 0.5]] = True
        # HiGHS works in floating point: what it chose is looked at again.
        if not self.problem.covers[np.ix_(rows, chosen)].any(axis=1).all():
            raise PlumbError("HiGHS' answer leaves a cell uncovered.", ExitCode.ENVIRONMENT)
        return Answer(chosen, int(self.problem.costs[chosen].sum()), bound, nodes)


def solve(
    costs: Floats,
    constraints: list[LinearConstraint],
    deadline: float,
    least: Floats | int = 0,
) -> tuple[Costs, float, int]:
    """(x, dual bound, nodes) of min costs·x, x in {0, 1}, by HiGHS without tolerated gap.

    least: of each x.

    Raises PlumbError if no solution was found before the deadline (time.monotonic()).
    """
    left = max(1.0, deadline - time.monotonic())
    result = milp(
        costs,
        integrality=np.ones(len(costs)),
        bounds=Bounds(least, 1),
        constraints=constraints,
        options={"mip_rel_gap": 0.0, "time_limit": left},
    )
    if result.x is None:
        raise PlumbError(
            f"HiGHS found no choice of tests ({result.message.strip()}): give it more --seconds.",
            ExitCode.ENVIRONMENT,
        )
    bound = float(result.fun if result.mip_dual_bound is None else result.mip_dual_bound)
    return np.round(result.x).astype(np.int64), bound, int(result.mip_node_count or 0)
