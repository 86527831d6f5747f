"""The best spread of a few tests over identical slots, with a proof, by integer programming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_TESTS = 40
_SECONDS = 3.0


@dataclass(frozen=True)
class Exact:
    """bins: for each slot the numbers of its tests. bound: no spread ends earlier (HiGHS)."""

    bins: list[list[int]]
    bound: float


def solve(costs: Sequence[float], slots: int, seconds: float = _SECONDS) -> Exact | None:
    """Minimises the latest slot's load with HiGHS; None if it finds nothing in the time given.

    x[i, s] = 1 if test i runs in slot s; T is at least each slot's load. Slots are alike, so test i
    (the longest first) may only go to the first i + 1 of them, which removes most of the mirrors.
    """
    # Only here, since SciPy takes a third of a second to import.
    import numpy as np
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    order = sorted(range(len(costs)), key=lambda number: -costs[number])
    tests, longest = len(order), np.array([costs[number] for number in order])
    cells = tests * slots
    objective: Any = np.append(np.zeros(cells), 1.0)
    once = sparse.hstack(
        [sparse.kron(sparse.eye(tests), np.ones((1, slots))), np.zeros((tests, 1))]
    )
    loads = sparse.hstack([sparse.kron(longest[None, :], sparse.eye(slots)), -np.ones((slots, 1))])
    upper = np.ones(cells + 1)
    upper[-1] = np.inf
    for i in range(min(tests, slots)):
        upper[i * slots + i + 1 : (i + 1) * slots] = 0
    found = milp(
        objective,
        integrality=np.append(np.ones(cells), 0),
        bounds=Bounds(np.zeros(cells + 1), upper),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(loads, -np.inf, 0)],
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        return None
    chosen = found.x[:-1].reshape(tests, slots).round().astype(bool)
    bins = [[order[i] for i in np.flatnonzero(chosen[:, slot])] for slot in range(slots)]
    return Exact(bins, float(found.mip_dual_bound))
