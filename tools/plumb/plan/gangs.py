"""Plans tests that take several GPUs of a host at once, beside others that take fewer."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tools.plumb.plan.job import Job, Placed, Pool

_TRIES = 300


def plan(jobs: Sequence[Job], pool: Pool, bound: float, seed: int = 0) -> list[tuple[int, Placed]]:
    """(host, test with its time) of each: the best of many orders; stops at `bound`.

    An order is worked off as a queue is: the next test that fits goes to the host where it can
    begin first. Tried are the widest first, the longest first, the largest area first, and orders
    near the best of these, from a fixed seed: the same plan each time.
    """
    orders = [
        sorted(jobs, key=lambda job: (-job.width, -job.seconds, job.label)),
        sorted(jobs, key=lambda job: (-job.seconds, -job.width, job.label)),
        sorted(jobs, key=lambda job: (-job.seconds * job.width, job.label)),
    ]
    best = min((_list(order, pool) for order in orders), key=_finish)
    order = min(orders, key=lambda one: _finish(_list(one, pool)))
    rng = random.Random(seed)
    for _ in range(_TRIES):
        if _finish(best) <= bound + 1e-9 or len(jobs) < 3:
            break
        near = list(order)
        for _ in range(rng.randint(1, 3)):
            i, j = rng.randrange(len(near)), rng.randrange(len(near))
            near[i], near[j] = near[j], near[i]
        tried = _list(near, pool)
        if _finish(tried) <= _finish(best):
            best, order = tried, near
    return best


def longest_first(jobs: Sequence[Job], pool: Pool) -> list[tuple[int, Placed]]:
    """The plain queue: the longest first, wherever it can begin first."""
    return _list(sorted(jobs, key=lambda job: (-job.seconds, job.label)), pool)


def _finish(placed: Sequence[tuple[int, Placed]]) -> float:
    return max((one.end for _, one in placed), default=0.0)


def _list(order: Sequence[Job], pool: Pool) -> list[tuple[int, Placed]]:
    free = [[0.0] * pool.slots for _ in range(pool.hosts)]
    placed = []
    for job in order:
        host = min(range(pool.hosts), key=lambda h: (sorted(free[h])[job.width - 1], h))
        slots = sorted(range(pool.slots), key=lambda slot: free[host][slot])[: job.width]
        start = max(free[host][slot] for slot in slots)
        first = any(free[host][slot] == 0.0 for slot in slots)
        end = start + (pool.start_seconds + job.seconds if first else pool.cost(job))
        for slot in slots:
            free[host][slot] = end
        placed.append((host, Placed(job, start, end)))
    return placed
