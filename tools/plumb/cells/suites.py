"""Which tests a test_suite stands for."""

from __future__ import annotations

from tools.plumb.graph import Graph

SUITE = "test_suite"


def members(graph: Graph, suite: str) -> set[str]:
    """The targets that Bazel takes a suite for: listed ones, filtered by the tags of the suite."""
    found: set[str] = set()
    target = graph.targets[suite]
    for label in target.deps:
        inner = graph.targets.get(label)
        if inner is not None:
            found |= members(graph, label) if inner.rule_class == SUITE else {label}
    # A suite's own 'manual' hides it from patterns, and filters nothing.
    wanted = {tag.removeprefix("+") for tag in target.tags if tag[:1] != "-"} - {"manual"}
    unwanted = {tag.removeprefix("-") for tag in target.tags if tag[:1] == "-"}
    return {
        label for label in found if wanted <= (has := _words(graph, label)) and not unwanted & has
    }


def _words(graph: Graph, label: str) -> set[str]:
    # A test's size counts as a tag of it.
    target = graph.targets[label]
    return {*target.tags, str(target.attributes.get("size") or "medium")}
