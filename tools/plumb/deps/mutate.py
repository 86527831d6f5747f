"""The graph with one dep less: to see whether the check would find it missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tools.plumb.deps.calls import Declared, declared
from tools.plumb.deps.check import check
from tools.plumb.deps.findings import Finding
from tools.plumb.deps.resolve import Resolver
from tools.plumb.deps.workspace import Workspace, labels
from tools.plumb.graph import Graph, Target, canonical


def removable(workspace: Workspace) -> Iterator[tuple[Declared, str]]:
    """Each dep that a call writes itself and that its targets could not lose.

    Left out are those kept for a reason, those of a target without sources, whose users would miss
    them, and those that another dep of the same target hands on as well.
    """
    resolver = Resolver(workspace)
    for call in declared(workspace):
        for label in sorted({dep for target in call.targets for dep in labels(target, "deps")}):
            literal = call.literal(label)
            if literal is None or literal.keep is not None:
                continue
            if all(_needs(resolver, target, label) for target in call.targets):
                yield call, label


def _needs(resolver: Resolver, target: Target, label: str) -> bool:
    own = resolver.sources(target.label)
    others = [dep for dep in labels(target, "deps") if dep != label]
    given = own.union(*map(resolver.provided, others))
    return bool(own) and not resolver.provided(label) & given


def without(workspace: Workspace, call: Declared, label: str) -> Workspace:
    """The workspace in which the targets of `call` do not depend on `label`."""
    targets = dict(workspace.graph.targets)
    for target in call.targets:
        attributes = {**target.attributes, "deps": _less(target.attributes["deps"], label)}
        deps = tuple(dep for dep in target.deps if dep != label)
        targets[target.label] = replace(target, attributes=attributes, deps=deps)
    graph = Graph(targets, workspace.graph.release)
    return Workspace(workspace.root, graph, workspace.paths, workspace.packages, workspace.policy)


def found(workspace: Workspace, call: Declared, label: str) -> list[Finding]:
    """What the check says of `call` without `label`: of this label, or by hand with its name."""
    asked = [target.label for target in call.targets]
    findings = check(without(workspace, call, label), asked)
    return [f for f in findings if f.adds and (f.label == label or label in f.by_hand)]


def _less(value: Any, label: str) -> Any:
    if isinstance(value, list):
        return [item for item in (_less(item, label) for item in value) if item is not None]
    if isinstance(value, dict):
        return {key: _less(inner, label) for key, inner in value.items()}
    if isinstance(value, str):
        return None if "//" in value and canonical(value) == label else value
    return value
