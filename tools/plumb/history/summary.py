"""What the history says of each test: seconds, failures, flakes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from tools.plumb.history.store import Attempt

PASSED = "PASSED"
_UNJUDGED = frozenset({"NO_STATUS", "INCOMPLETE"})


@dataclass(frozen=True)
class Run:
    """One execution of a test, all shards and attempts of it.

    ms: of each shard's last attempt, added up: what the test costs when nothing is flaky.
    status: PASSED, FLAKY (an attempt failed, a later one passed) or the status of a shard that
    did not pass.
    """

    label: str
    pool: str
    start_ms: int
    ms: int
    status: str
    shards: int
    attempts: int


@dataclass(frozen=True)
class Seconds:
    """Statistics of the passing runs. p90: linear between order statistics (NumPy's default)."""

    count: int
    median: float
    p90: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """A test's record. seconds: None if it never passed. flaky, failed: runs."""

    label: str
    pool: str
    runs: int
    flaky: int
    failed: int
    seconds: Seconds | None
    last_ms: int
    last_status: str

    @property
    def flake_rate(self) -> float:
        """Share of the runs in which an attempt failed and a later one passed."""
        return self.flaky / self.runs if self.runs else 0.0


def runs(attempts: Iterable[Attempt]) -> Iterator[Run]:
    """The runs that these attempts, sorted by label, belong to, by label and start.

    Shards that different invocations ran are runs of their own: the sum would be of two states.
    So are two first attempts at a shard under one invocation's name, as a file that lost its
    beginning, two invocations in one file, and two suites of a JUnit report give them.
    """
    for _, own in groupby(attempts, lambda a: a.label):
        grouped: dict[tuple[str, str, int], list[Attempt]] = {}
        for one in own:
            grouped.setdefault((one.configuration, one.invocation, one.run), []).append(one)
        found = [_run(parts) for group in grouped.values() for parts in _apart(group)]
        whole = max((run.shards for run in found), default=0)
        yield from sorted(
            (run for run in found if run.shards == whole), key=lambda run: run.start_ms
        )


def _apart(attempts: list[Attempt]) -> list[list[Attempt]]:
    """The same in groups of which none has two attempts of one number at a shard."""
    found: list[dict[tuple[int, int], Attempt]] = []
    for one in attempts:
        place = (one.shard, one.attempt)
        group = next((group for group in found if place not in group), None)
        if group is None:
            found.append(group := {})
        group[place] = one
    return [list(group.values()) for group in found]


def _run(attempts: list[Attempt]) -> Run:
    by_shard: dict[int, list[Attempt]] = {}
    for one in sorted(attempts, key=lambda a: (a.attempt, a.start_ms)):
        by_shard.setdefault(one.shard, []).append(one)
    last = [shard[-1] for shard in by_shard.values()]
    bad = [one.status for one in last if one.status not in (PASSED, "FLAKY")]
    retried = any(a.status != PASSED for shard in by_shard.values() for a in shard[:-1])
    flaky = retried or any(one.status == "FLAKY" for one in last)
    return Run(
        label=attempts[0].label,
        pool=attempts[0].pool,
        start_ms=min(a.start_ms for a in attempts),
        ms=sum(one.ms for one in last),
        status=bad[0] if bad else "FLAKY" if flaky else PASSED,
        shards=len(by_shard),
        attempts=len(attempts),
    )


def judged(every: Iterable[Run]) -> Iterator[Run]:
    """Those with a verdict: not cancelled, nor left without a status."""
    return (run for run in every if run.status not in _UNJUDGED)


def summaries(every: Iterable[Run]) -> Iterator[Summary]:
    """A summary of each test, by label; `every` is sorted by it."""
    for label, group in groupby(every, lambda run: run.label):
        own = list(judged(group))
        if not own:
            continue
        flaky = sum(run.status == "FLAKY" for run in own)
        passed = [run.ms / 1000 for run in own if run.status in (PASSED, "FLAKY")]
        yield Summary(
            label=label,
            pool=next((run.pool for run in reversed(own) if run.pool), ""),
            runs=len(own),
            flaky=flaky,
            failed=len(own) - len(passed),
            seconds=seconds(passed) if passed else None,
            last_ms=own[-1].start_ms,
            last_status=own[-1].status,
        )


def seconds(values: list[float]) -> Seconds:
    """Of at least one value."""
    p90 = values[0]
    if len(values) > 1:
        p90 = statistics.quantiles(values, n=10, method="inclusive")[8]
    return Seconds(len(values), statistics.median(values), p90, min(values), max(values))
