"""Shadow prices: what each claim costs, that is what could go if nobody asked for it."""

from __future__ import annotations

import time

import numpy as np

from tools.plumb.trim.optimise.cover import Answer, Solver
from tools.plumb.trim.optimise.problem import Problem
from tools.plumb.trim.optimise.result import Price


def prices(solver: Solver, best: Answer, seconds: float) -> tuple[list[Price], int]:
    """The price of each claim, dearest first, and for how many claims the time did not suffice.

    A price is exact: the problem is solved again without the claim's cells.
    """
    problem, deadline = solver.problem, time.monotonic() + seconds
    found, left = [], 0
    asked = [(claim,) for claim in problem.claims]
    for claims in [*asked, *_together(problem)]:
        if time.monotonic() > deadline:
            left += 1
            continue
        rows = np.any([problem.claims[claim] for claim in claims], axis=0)
        answer = solver.cover(rows)
        with_it, without = (_parts(problem, a) for a in (best, answer))
        exact = best.proven and answer.proven
        found.append(Price(claims, with_it[0] - without[0], with_it[1] - without[1], exact))
    found.sort(key=lambda price: (-price.gpu_seconds, -price.cpu_seconds, price.claims))
    return found, left


def _together(problem: Problem) -> list[tuple[str, ...]]:
    """Sets of several claims that one test alone covers."""
    alone = problem.covers.sum(axis=1) == 1
    names = np.array([cell.claim for cell in problem.cells])
    found: dict[tuple[str, ...], None] = {}
    for column in np.flatnonzero(problem.covers[alone].any(axis=0)):
        rows = alone & problem.covers[:, column]
        claims = tuple(str(name) for name in np.unique(names[rows]))
        if len(claims) > 1:
            found[claims] = None
    return list(found)


def _parts(problem: Problem, answer: Answer) -> tuple[int, int]:
    """GPU-seconds and CPU-seconds of the chosen columns."""
    chosen = [c for c, taken in zip(problem.columns, answer.chosen, strict=True) if taken]
    return (
        sum(column.gpu_seconds for column in chosen),
        sum(column.seconds for column in chosen if not column.on_gpu),
    )
