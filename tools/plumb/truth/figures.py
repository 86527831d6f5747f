"""Recall and precision over many changes, for plumb and for plain rdeps side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tools.plumb.truth.edits.catalogue import BEYOND_THE_GRAPH, DEMANDED
from tools.plumb.truth.measure import Step

Named = Callable[[Step], frozenset[str] | None]
METHODS: dict[str, Named] = {
    "plumb": lambda step: step.plumb,
    "plumb --precise": lambda step: step.precise,
    "rdeps": lambda step: step.rdeps,
}


@dataclass(frozen=True)
class Score:
    """Over all changes: tests named and executed, named in all, and executed in all."""

    right: int
    named: int
    executed: int

    @property
    def recall(self) -> float:
        """Of the tests that Bazel ran, how many were named."""
        return self.right / self.executed if self.executed else 1.0

    @property
    def precision(self) -> float:
        """Of the tests that were named, how many Bazel ran."""
        return self.right / self.named if self.named else 1.0


def score(steps: Iterable[Step], named: Named) -> Score:
    """The score of what `named` takes from each step."""
    found = [(named(step) or frozenset[str](), step.executed) for step in steps]
    return Score(
        sum(len(names & executed) for names, executed in found),
        sum(len(names) for names, _ in found),
        sum(len(executed) for _, executed in found),
    )


def table(steps: list[Step]) -> str:
    """The figures as text, and why some changes are counted apart."""
    rows = [f"{'':58}{'recall':>8}{'precision':>11}{'missed':>8}{'extra':>7}"]
    asked = [step for step in steps if not step.is_demanded]
    told = [step for step in asked if not step.is_beyond_the_graph]
    for name, group in (
        ("every change", steps),
        ("without what plumb is asked to select", asked),
        ("and without what the graph cannot tell", told),
    ):
        for method, named in METHODS.items():
            if all(named(step) is None for step in group):
                continue
            found = score(group, named)
            missed, extra = found.executed - found.right, found.named - found.right
            title = f"{method}, {name} ({len(group)})"
            figures = f"{found.recall:8.3f}{found.precision:11.3f}{missed:8}{extra:7}"
            rows.append(f"{title:58}{figures}")
    rows.append("Selected as asked, though Bazel does not run it again:")
    rows += [f"  {kind}: {why}" for kind, why in DEMANDED.items()]
    rows.append("What the graph cannot tell:")
    rows += [f"  {kind}: {why}" for kind, why in BEYOND_THE_GRAPH.items()]
    return "\n".join(rows)


def wrong(step: Step) -> str:
    """What plumb missed or named beside it, "" if it was exact."""
    missed, extra = step.executed - step.plumb, step.plumb - step.executed
    parts = []
    if step.precise is not None and step.executed - step.precise:
        parts.append(f"missed by --precise: {' '.join(sorted(step.executed - step.precise)[:4])}")
    if missed:
        parts.append(f"missed {len(missed)}: {' '.join(sorted(missed)[:4])}")
    if extra:
        parts.append(f"extra {len(extra)}: {' '.join(sorted(extra)[:4])}")
    return f"{' + '.join(step.kinds)}: {'; '.join(parts)}" if parts else ""
