"""Reads claims and tests out of a target graph."""

from __future__ import annotations

from collections.abc import Sequence

from tools.plumb.cells import problems, registry, tags
from tools.plumb.cells.model import Claim, Model, Test
from tools.plumb.graph import Graph
from tools.plumb.pools import PoolRule


def model_of(graph: Graph, rules: Sequence[PoolRule] = ()) -> Model:
    """The model of a graph; `rules` place tests that name no pool.

    Claims that tests name and no target registers are in the model without label. Where any
    claim is registered, naming one that is not is a problem; where none is, every name counts.
    """
    claims, found = registry.registered(graph)
    tests = _tests(graph, rules)
    found += problems.of_claims(claims, {test.arch for test in tests.values()})
    for label, test in tests.items():
        found += problems.of_test(graph.targets[label], test, claims)
    found += problems.of_suites(graph, tests)
    named = {claim for test in tests.values() for claim in test.covers}
    unknown = {name: Claim(name) for name in sorted(named - claims.keys())}
    return Model({**claims, **unknown}, tests, tuple(found))


def _tests(graph: Graph, rules: Sequence[PoolRule]) -> dict[str, Test]:
    run = {target.label for target in graph.tests_of_all()}
    return {
        target.label: tags.test_of(target, rules, target.label in run) for target in graph.tests()
    }
