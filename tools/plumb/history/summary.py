"""What the history says of each test: seconds, failures, flakes."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tools.plumb.history.store import Attempt, Execution, Store

PASSED = "PASSED"
_UNJUDGED = frozenset({"NO_STATUS", "INCOMPLETE"})


@dataclass(frozen=True)
class Run:
    """One execution of a test, all shards and attempts of it.

    ms: of each shard's last attempt, added up: what the test costs when nothing is flaky.
    status: PASSED, FLAKY (an attempt failed, a later one passed) or the status of a shard that
    did not pass. whole: no cache served a shard of it, so that `ms` is of one state.
    """

    label: str
    pool: str
    start_ms: int
    ms: int
    status: str
    shards: int
    attempts: int
    whole: bool = True


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
    """A test's record. seconds: None if it never passed whole. flaky, failed: runs."""

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


def runs_of(store: Store, labels: str = "*", since_ms: int = 0) -> Iterator[Run]:
    """The runs of the labels that a glob names since a time, by all that the history tells."""
    return runs(store.attempts(labels, since_ms), store.shared(labels), store.unended())


def runs(
    attempts: Iterable[Attempt],
    shared: Mapping[Execution, Mapping[int, int]] | None = None,
    unended: Collection[str] = (),
) -> Iterator[Run]:
    """The runs that these attempts, sorted by label, belong to, by label and start.

    Shards that different invocations ran are runs of their own: the sum would be of two states.
    So are two first attempts at a shard under one invocation's name, as a file that lost its
    beginning, two invocations in one file, and two suites of a JUnit report give them.

    A run of which shards are missing has no verdict and is left out, unless one of the others
    failed. How many shards a test has is asked of the run alone, since it changes: 1 to the last
    that ran or that a cache served; where its invocation was cut off, also of the run next to it.

    shared: milliseconds of the shards, by number, that a cache served to an execution that ran
    others. unended: invocations that were cut off.
    """
    shared = shared or {}
    for _, own in groupby(attempts, lambda a: a.label):
        grouped: dict[Execution, list[Attempt]] = {}
        for one in own:
            grouped.setdefault(
                Execution(one.label, one.configuration, one.invocation, one.run), []
            ).append(one)
        found: list[Run] = []
        cut: list[Run] = []
        for execution, group in grouped.items():
            for parts in _apart(group):
                run, is_all = _run(parts, shared.get(execution, {}))
                if is_all and execution.invocation in unended:
                    cut.append(run)
                elif is_all or _failed(run):
                    found.append(run)
        complete = list(found)
        found += [run for run in cut if _failed(run) or run.shards >= _near(run, complete)]
        yield from sorted(found, key=lambda run: run.start_ms)


def _failed(run: Run) -> bool:
    return run.status not in (PASSED, "FLAKY")


def _near(run: Run, others: Sequence[Run]) -> int:
    """How many shards the run nearest in time has; 1 if there is none."""
    near = min(others, key=lambda other: abs(other.start_ms - run.start_ms), default=None)
    return 1 if near is None else near.shards


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


def _run(attempts: list[Attempt], served: Mapping[int, int]) -> tuple[Run, bool]:
    """The run, and whether no shard is missing. served: milliseconds by shard, from a cache."""
    by_shard: dict[int, list[Attempt]] = {}
    for one in sorted(attempts, key=lambda a: (a.attempt, a.start_ms)):
        by_shard.setdefault(one.shard, []).append(one)
    last = [shard[-1] for shard in by_shard.values()]
    bad = [one.status for one in last if one.status not in (PASSED, "FLAKY")]
    retried = any(a.status != PASSED for shard in by_shard.values() for a in shard[:-1])
    flaky = retried or any(one.status == "FLAKY" for one in last)
    cached = {shard: ms for shard, ms in served.items() if shard not in by_shard}
    shards = by_shard.keys() | cached.keys()
    run = Run(
        label=attempts[0].label,
        pool=attempts[0].pool,
        start_ms=min(a.start_ms for a in attempts),
        ms=sum(one.ms for one in last) + sum(cached.values()),
        status=bad[0] if bad else "FLAKY" if flaky else PASSED,
        shards=len(shards),
        attempts=len(attempts),
        whole=not served,
    )
    return run, max(shards) == len(shards)


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
        passed = [run.ms / 1000 for run in own if run.whole and not _failed(run)]
        yield Summary(
            label=label,
            pool=next((run.pool for run in reversed(own) if run.pool), ""),
            runs=len(own),
            flaky=flaky,
            failed=sum(map(_failed, own)),
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
