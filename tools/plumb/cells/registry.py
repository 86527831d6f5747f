"""Reads the claims that a workspace registers: rules of class `coverage_claim`."""

from __future__ import annotations

from collections.abc import Iterable

from tools.plumb.cells.model import Claim
from tools.plumb.graph import RULE, Graph, Target

RULE_CLASS = "coverage_claim"


def registered(graph: Graph) -> tuple[dict[str, Claim], list[str]]:
    """The claims by name, and a sentence for each that is registered twice."""
    claims: dict[str, Claim] = {}
    problems = []
    for target in _rules(graph):
        claim = _claim(target)
        first = claims.setdefault(claim.name, claim)
        if first is not claim:
            problems.append(
                f"claim {claim.name} is registered by {first.label} and by {claim.label}: keep one"
            )
    return claims, problems


def _rules(graph: Graph) -> Iterable[Target]:
    for _, target in sorted(graph.targets.items()):
        if target.kind == RULE and target.rule_class == RULE_CLASS:
            yield target


def _claim(target: Target) -> Claim:
    attributes = target.attributes
    return Claim(
        name=str(attributes.get("claim") or target.label.rpartition(":")[2]),
        sentence=str(attributes.get("sentence") or "").strip(),
        level=str(attributes.get("level") or "") or None,
        demands=tuple(_demand(text) for text in attributes.get("demands") or ()),
        label=target.label,
    )


def _demand(text: str) -> tuple[str, str]:
    arch, _, cadence = text.partition(":")
    return arch, cadence
