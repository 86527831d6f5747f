"""Who may use a target: visibility, package groups and testonly, compared between two graphs.

A change of these makes no test run again, so it selects none. But Bazel may refuse to analyse what
uses the target, which only Bazel can say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tools.plumb.graph import GENERATED, GROUP, RULE, Graph, Target, canonical
from tools.plumb.incremental import layered

_PARTS = ("visibility", "testonly")


@dataclass(frozen=True)
class Access:
    """changed: labels that other targets may now use, or no longer.

    users: rules of the head that Bazel has to analyse to know whether they still may.
    """

    changed: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)


def compare(base: Graph, head: Graph) -> Access:
    """What differs between the two, for targets that both have."""
    apart = layered.apart(base.index, head.index)
    changed = {
        label
        for label in (head.targets if apart is None else apart)
        if (target := head.targets.get(label)) is not None
        if (before := base.targets.get(label)) is not None
        if not target.same_as(before) and _of(target) != _of(before)
    }
    if not changed:
        return Access()
    groups = {label for label in changed if head.targets[label].kind == GROUP}
    affected = changed | (_named_by_groups(head, groups) if groups else set())
    users = {label for label in changed if _testonly(base, label) != _testonly(head, label)}
    users |= _users(head, affected)
    rules = sorted(label for label in users if _counts(head.targets[label]))
    return Access(sorted(changed), rules)


def _of(target: Target) -> Any:
    if target.kind == GROUP:
        return target.attributes
    return {name: _sorted(target.attributes.get(name)) for name in _PARTS}


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _testonly(graph: Graph, label: str) -> Any:
    return graph.targets[label].attributes.get("testonly")


def _named_by_groups(graph: Graph, groups: set[str]) -> set[str]:
    """Targets that are visible by way of one of `groups`, and the groups that include one."""
    found: set[str] = set()
    more = set(groups)
    while more:
        named = more
        more = {
            label
            for label, target in graph.targets.items()
            if label not in found and not named.isdisjoint(_names(target))
        }
        found |= more
    return found


def _names(target: Target) -> set[str]:
    key = "includedPackageGroup" if target.kind == GROUP else "visibility"
    return {canonical(label) for label in target.attributes.get(key) or ()}


def _users(graph: Graph, labels: set[str]) -> set[str]:
    """What uses one of `labels` directly, or by way of an alias or of a file that one makes."""
    found: set[str] = set()
    todo = set(labels)
    while todo:
        for user in {*graph.index.users(todo.pop())} - found:
            found.add(user)
            target = graph.targets[user]
            if target.kind == GENERATED or target.rule_class == "alias":
                todo.add(user)
    return found


def _counts(target: Target) -> bool:
    return target.kind == RULE and not target.is_manual
