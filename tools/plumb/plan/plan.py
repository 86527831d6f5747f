"""A pool's plan: which test on which executor, in which order, and how far it is from the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.plumb.plan import balance, exact, gangs
from tools.plumb.plan.bound import Bound, lower_bound
from tools.plumb.plan.job import Executor, Job, Placed, Pool

_CLOSE = 1.005
"""Of the bound; a plan that is farther off is worth an exact search."""


@dataclass(frozen=True)
class Plan:
    """executors: each slot's tests in order; of a host whose tests differ in width, the host's.

    bound: when no plan can be done earlier. plain: when longest-first alone would be done.
    """

    pool: Pool
    executors: tuple[Executor, ...]
    bound: Bound
    plain: float

    @property
    def width(self) -> int:
        """Slots of a host that each executor takes: as many as its tests do, or all."""
        widths = {one.job.width for executor in self.executors for one in executor.placed}
        return self.pool.slots if len(widths) > 1 else next(iter(widths), 1)

    @property
    def finish(self) -> float:
        """When the last test is done."""
        return max((executor.finish for executor in self.executors), default=0.0)

    @property
    def gap(self) -> float:
        """Share by which `finish` is above the bound."""
        return self.finish / self.bound.seconds - 1 if self.bound.seconds else 0.0

    @property
    def work(self) -> float:
        """Seconds of all tests, by themselves."""
        return sum(one.job.seconds for executor in self.executors for one in executor.placed)


def make(jobs: Sequence[Job], pool: Pool) -> Plan:
    """Plans the tests of one pool.

    Raises:
        ValueError: a test takes more slots than a host has.
    """
    for job in jobs:
        if job.width > pool.slots:
            raise ValueError(
                f"{job.label} takes {job.width} GPUs of one host, pool '{pool.name}' has hosts of "
                f"{pool.slots}"
            )
    widths = {job.width for job in jobs}
    if len(widths) > 1:
        return _of_gangs(jobs, pool)
    return _of_equals(jobs, pool, next(iter(widths), 1))


def fail_fast(jobs: Sequence[Job]) -> list[Job]:
    """Tests in the order that finds a failure soonest, on average: by failure rate per second.

    Of independent tests this is Smith's rule (Naval Res. Logist. Q. 3, 1956). Those that never
    failed come last, the longest first.
    """
    return sorted(
        jobs, key=lambda job: (-job.failure_rate / max(job.seconds, 1e-3), -job.seconds, job.label)
    )


def _of_equals(jobs: Sequence[Job], pool: Pool, width: int) -> Plan:
    per_host = pool.slots // width
    slots = pool.hosts * per_host
    costs = [pool.cost(job) for job in jobs]
    bound = lower_bound(jobs, pool)
    # What each slot that is used pays once.
    once = pool.start_seconds + pool.saved_seconds
    plain = balance.longest_first(costs, slots)
    bins = balance.balance(costs, slots, bound.seconds - once)
    latest = _latest(bins, costs)
    if latest + once > bound.seconds * _CLOSE and len(jobs) <= exact.MOST_TESTS:
        found = exact.solve(costs, slots)
        if found is not None:
            bins = min(bins, found.bins, key=lambda one: _latest(one, costs))
            first = pool.start_seconds + min(pool.saved_seconds, min(j.seconds for j in jobs))
            if first + found.bound > bound.seconds:
                bound = Bound(first + found.bound, "integer programming (HiGHS)")
    executors = [
        _in_order([jobs[number] for number in own], pool, slot // per_host)
        for slot, own in enumerate(bins)
    ]
    plain_finish = max(_in_order([jobs[number] for number in own], pool, 0).finish for own in plain)
    return Plan(pool, tuple(executors), bound, plain_finish)


def _in_order(jobs: Sequence[Job], pool: Pool, host: int) -> Executor:
    placed: list[Placed] = []
    now = 0.0
    for job in fail_fast(jobs):
        end = now + (pool.cost(job) if placed else pool.start_seconds + job.seconds)
        placed.append(Placed(job, now, end))
        now = end
    return Executor(host, placed)


def _of_gangs(jobs: Sequence[Job], pool: Pool) -> Plan:
    bound = lower_bound(jobs, pool)
    executors = [Executor(host) for host in range(pool.hosts)]
    for host, placed in gangs.plan(jobs, pool, bound.seconds):
        executors[host].placed.append(placed)
    for executor in executors:
        executor.placed.sort(key=lambda one: (one.start, one.job.label))
    plain = max(one.end for _, one in gangs.longest_first(jobs, pool))
    return Plan(pool, tuple(executors), bound, plain)


def _latest(bins: balance.Bins, costs: Sequence[float]) -> float:
    return max(sum(costs[number] for number in own) for own in bins)
