"""When no plan can be done earlier, however it is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tools.plumb.plan.job import Job, Pool


@dataclass(frozen=True)
class Bound:
    """seconds: no plan ends earlier. why: what it comes from."""

    seconds: float
    why: str


def lower_bound(jobs: Sequence[Job], pool: Pool) -> Bound:
    """The largest of what follows from the whole work, the longest test, and tests that exclude
    one another.

    The whole work divided by all slots. The longest test. Of the k·m + 1 longest tests some slot
    of m gets k + 1, at least the k + 1 shortest of them. Tests that take more than half a host
    run one at a time on each.
    """
    if not jobs:
        return Bound(0.0, "nothing to run")
    # The first test of a slot saves nothing, so each slot in use costs that once; a test shorter
    # than what is saved is the cheapest first.
    first = pool.start_seconds + min(pool.saved_seconds, min(job.seconds for job in jobs))
    longest = max(jobs, key=lambda job: job.seconds)
    work = sum(pool.cost(job) * job.width for job in jobs)
    found = [
        Bound(first + work / (pool.hosts * pool.slots), "the whole work over all slots"),
        Bound(first + pool.cost(longest), f"the longest test, {longest.label}"),
    ]
    for width in sorted({job.width for job in jobs}):
        at_least = [pool.cost(job) for job in jobs if job.width >= width]
        machines = pool.hosts * (pool.slots // width)
        seconds = _identical(sorted(at_least, reverse=True), machines)
        gpus = f" of {width} GPUs or more" if width > 1 else ""
        found.append(Bound(first + seconds, f"tests{gpus} that share {machines} places"))
    return max(found, key=lambda bound: bound.seconds)


def _identical(costs: Sequence[float], machines: int) -> float:
    """Of tests, the longest first, on so many machines that run one at a time."""
    best = sum(costs) / machines
    for k in range(1, math.ceil(len(costs) / machines)):
        longest = costs[: k * machines + 1]
        best = max(best, sum(longest[-(k + 1) :]))
    return best
