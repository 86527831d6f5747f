"""Dead tests: skipped wherever they run, disabled, never collected, or of no pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tools.plumb.cells.model import Test
from tools.plumb.graph import Graph, source_path
from tools.plumb.trim.propose.candidate import Candidate, Kind
from tools.plumb.trim.source.cases import Case, Collected, Skip
from tools.plumb.trim.source.conditions import Machine
from tools.plumb.trim.source.read import Sources, is_test_file


def candidates(sources: Sources, graph: Graph) -> list[Candidate]:
    """What never runs, by file."""
    found = [c for path, tests in sources.tests.items() for c in _of_file(sources, path, tests)]
    found += [_idle(test) for tests in sources.tests.values() for test in tests if test.idle]
    found += _unlisted(sources, graph)
    return sorted(found, key=lambda c: (c.title, c.tests))


def machine_of(test: Test) -> Machine:
    """Where the test runs, as conditions in its source see it."""
    return Machine(test.pool, test.arch, test.gpus)


def _of_file(sources: Sources, path: str, tests: Sequence[Test]) -> list[Candidate]:
    collected = sources.cases(path)
    if collected is None:
        return []
    labels = tuple(test.label for test in tests)
    found = []
    if not collected.cases and sources.launches(path):
        found.append(_nothing_collected(path, labels))
    for name, line in collected.shadowed:
        title = f"{path}:{line}: {name} is never collected"
        evidence = "a later definition of the same name replaces it"
        found.append(Candidate(Kind.DEAD, title, labels, evidence=(evidence,)))
    skipped = _skipped_everywhere(collected, tests)
    for klass, members in skipped.items():
        found.append(_dead(path, klass, members, tests, len(collected.cases)))
    return found


def _skipped_everywhere(
    collected: Collected, tests: Sequence[Test]
) -> dict[str, list[tuple[Case, Skip]]]:
    """Cases that skip themselves on every pool of the file's tests, by class."""
    found: dict[str, list[tuple[Case, Skip]]] = defaultdict(list)
    running = [test for test in tests if test.idle is None]
    for case in collected.cases:
        skips = [case.skip_on(machine_of(test), collected.names) for test in running]
        if skips and all(skips):
            assert skips[0] is not None
            found[case.klass or case.name].append((case, skips[0]))
    return found


def _dead(
    path: str,
    name: str,
    members: list[tuple[Case, Skip]],
    tests: Sequence[Test],
    cases: int,
) -> Candidate:
    case = members[0][0]
    whole = len(members) == cases
    pools = ", ".join(sorted({f"{test.pool} ({test.arch})" for test in tests}))
    said = [f"line {s.line}: skipped {s.text}" for s in dict.fromkeys(s for _, s in members)]
    runs = [test for test in tests if test.idle is None] if whole else []
    doubts = [] if whole else ["the file has other cases that run: only these can go, at no saving"]
    return Candidate(
        Kind.DEAD,
        f"{path}:{case.line}: {name} never runs in CI ({len(members)} of {cases} cases)",
        tuple(test.label for test in tests),
        sum(test.seconds or 0 for test in runs),
        sum(test.gpu_seconds for test in runs),
        (*said, f"on every pool that lists it: {pools}"),
        tuple(doubts),
    )


def _nothing_collected(path: str, labels: tuple[str, ...]) -> Candidate:
    evidence = "it starts a server, but defines no test function or class that would be collected"
    return Candidate(Kind.DEAD, f"{path}: nothing is collected", labels, evidence=(evidence,))


def _idle(test: Test) -> Candidate:
    return Candidate(
        Kind.DEAD,
        f"{test.label} never runs",
        (test.label,),
        evidence=(f"{test.idle}, so neither //... nor a suite runs it",),
    )


def _unlisted(sources: Sources, graph: Graph) -> list[Candidate]:
    """Test files of the graph that no test lists."""
    listed = set(sources.tests)
    found = []
    for label, target in sorted(graph.targets.items()):
        path = source_path(label) or ""
        if target.kind == "source" and is_test_file(path) and path not in listed:
            evidence = ("a target names it, and no test has it among its sources",)
            title = f"{path} is never collected"
            found.append(Candidate(Kind.DEAD, title, (label,), evidence=evidence))
    return found
