"""What a trim stands on: the workspace's model, corrected by its sources, and its suites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tools.plumb.cells.load import Loaded
from tools.plumb.cells.model import Model, Test
from tools.plumb.cells.suites import SUITE, members
from tools.plumb.errors import PlumbError
from tools.plumb.graph import Graph
from tools.plumb.trim.propose.dead import machine_of
from tools.plumb.trim.source.read import Sources

_SHOWN = 12


@dataclass(frozen=True)
class Ground:
    """model: with what the sources say of skips. suites: label of each test_suite to its tests.

    undeclared: (label, architecture, why) of tests whose source skips every case there, though no
    tag skipped_on:ARCH says so.
    """

    model: Model
    graph: Graph
    sources: Sources
    text: Callable[[str], str | None]
    suites: Mapping[str, tuple[str, ...]]
    undeclared: tuple[tuple[str, str, str], ...]


def of(loaded: Loaded) -> Ground:
    """The ground of a loaded workspace.

    Raises PlumbError if the declarations contradict themselves, if there is no test, or if a
    source is no Python.
    """
    model = loaded.model
    if model.problems:
        further = len(model.problems) - _SHOWN
        listed = "\n".join(f"  - {text}" for text in model.problems[:_SHOWN])
        more = f"\n  - and {further} more" if further > 0 else ""
        raise PlumbError(f"{loaded.name} contradicts itself; mend this first:\n{listed}{more}")
    if not model.tests:
        raise PlumbError(f"{loaded.name} has no test, so there is nothing to trim.")
    sources = Sources(model, loaded.text)
    skips = _skips(model, sources)
    tests = {label: _skipping(test, skips.get(label)) for label, test in model.tests.items()}
    corrected = replace(model, tests=tests)
    suites = {
        label: tuple(sorted(members(loaded.graph, label) & tests.keys()))
        for label, target in sorted(loaded.graph.targets.items())
        if target.rule_class == SUITE
    }
    undeclared = tuple((label, arch, why) for label, (arch, why) in sorted(skips.items()))
    return Ground(
        corrected, loaded.graph, Sources(corrected, loaded.text), loaded.text, suites, undeclared
    )


def _skips(model: Model, sources: Sources) -> dict[str, tuple[str, str]]:
    """Label to (architecture, why) of tests whose sources skip every case where they run."""
    found = {}
    for label, test in model.tests.items():
        if test.covers and not test.skips:
            why = _why_skipped(sources, test)
            if why is not None:
                found[label] = (test.arch, why)
    return found


def _why_skipped(sources: Sources, test: Test) -> str | None:
    machine = machine_of(test)
    why = None
    for path in sources.of(test):
        collected = sources.cases(path)
        for case in collected.cases if collected else ():
            assert collected is not None
            skip = case.skip_on(machine, collected.names)
            if skip is None:
                return None
            why = why or f"{path}:{skip.line} skips {skip.text}"
    return why


def _skipping(test: Test, skip: tuple[str, str] | None) -> Test:
    if skip is None:
        return test
    return replace(test, skipped_on={**test.skipped_on, skip[0]: skip[1]})
