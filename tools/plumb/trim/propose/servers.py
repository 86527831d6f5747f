"""Mergeable servers: tests that start one server but for flags that leave each other alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.plumb.cells.model import Test
from tools.plumb.trim.change import Merge
from tools.plumb.trim.propose.candidate import Candidate, Kind, cost
from tools.plumb.trim.source.launch import Launch, conflicts, union
from tools.plumb.trim.source.read import Sources


def candidates(sources: Sources) -> list[Candidate]:
    """A candidate for each pair of files whose servers can be one, dearest first."""
    found = [
        _candidate(sources, one, other)
        for group in _groups(sources).values()
        for one, other in _pairs(group)
    ]
    kept = [candidate for candidate in found if candidate is not None]
    return sorted(kept, key=lambda c: (-c.gpu_seconds, -c.seconds, c.tests))


def problem(sources: Sources, tests: list[Test], merge: Merge) -> str | None:
    """Why the servers of the tests cannot be one, or that they start none; None if they can."""
    started: list[tuple[str, Launch]] = []
    for test in tests:
        paths = sources.of(test)
        own = [(path, launch) for path in paths for launch in sources.launches(path)]
        if not own:
            read = ", ".join(paths) or "no test file"
            return f"{test.label} starts no server ({read}), so there is none to be shared"
        started += own
    for place, (path, launch) in enumerate(started):
        for other_path, other in started[place + 1 :]:
            if path != other_path and union(launch, other) is None:
                why = "; ".join(conflicts(launch, other))
                return f"{path}:{launch.line} and {other_path}:{other.line} contradict: {why}"
    return None


def unshared(sources: Sources, tests: list[Test]) -> list[str]:
    """The flags that only some of the tests' servers set: no run would be without them any more."""
    found: dict[str, None] = {}
    started = [(p, launch) for t in tests for p in sources.of(t) for launch in sources.launches(p)]
    for place, (path, launch) in enumerate(started):
        for other_path, other in started[place + 1 :]:
            merged = union(launch, other) if path != other_path else None
            for extra in (merged.only_one, merged.only_other) if merged else ():
                found |= {f"no run would be without {_said(extra)} any more": None} if extra else {}
    return list(found)


Group = list[tuple[str, Launch, Test]]


def _groups(sources: Sources) -> dict[tuple[str, ...], Group]:
    """Files with one launch, by where their test runs and what is started."""
    groups: dict[tuple[str, ...], Group] = defaultdict(list)
    for path, tests in sources.tests.items():
        found = sources.launches(path)
        for test in tests if len(found) == 1 else ():
            if test.runs:
                place = (test.pool, str(test.gpus), test.cadence, test.level or "")
                key = (*place, found[0].launcher, found[0].model)
                groups[key].append((path, found[0], test))
    return groups


def _pairs(group: Group) -> Iterator[tuple[tuple[str, Launch, Test], tuple[str, Launch, Test]]]:
    for place, one in enumerate(group):
        for other in group[place + 1 :]:
            if one[0] != other[0]:
                yield one, other


def _candidate(
    sources: Sources, one: tuple[str, Launch, Test], other: tuple[str, Launch, Test]
) -> Candidate | None:
    merged = union(one[1], other[1])
    if merged is None or merged.one_sided:
        return None
    goes, stays = sorted((one, other), key=lambda found: cost(found[2]))
    evidence = [f"both start {one[1].model} by {one[1].launcher}, with {_said(merged.common)}"]
    doubts = []
    for (path, launch, _), extra in ((one, merged.only_one), (other, merged.only_other)):
        evidence.append(f"only {path}:{launch.line} adds {_said(extra)}")
        if extra:
            doubts.append(f"nothing would start that server without {_said(extra)} any more")
    evidence.append(
        f"one server: {_said({**merged.common, **merged.only_one, **merged.only_other})}"
    )
    return Candidate(
        Kind.SERVERS,
        f"{goes[0]} and {stays[0]} can share one server",
        (stays[2].label, goes[2].label),
        goes[2].seconds or 0,
        goes[2].gpu_seconds,
        tuple(evidence),
        tuple(doubts) if len(doubts) < 2 else (doubts[0], doubts[1]),
    )


def _said(flags: object) -> str:
    assert isinstance(flags, dict) or hasattr(flags, "items")
    parts = [f"{name} {value}".strip() for name, value in sorted(flags.items())]
    return " ".join(parts) or "no flags"
