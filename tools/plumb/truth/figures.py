"""Recall and precision over many changes, for plumb and for plain rdeps side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tools.plumb.truth.measure import Step


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


def score(steps: Iterable[Step], named: Callable[[Step], frozenset[str]]) -> Score:
    """The score of what `named` takes from each step."""
    found = [(named(step), step.executed) for step in steps]
    return Score(
        sum(len(names & executed) for names, executed in found),
        sum(len(names) for names, _ in found),
        sum(len(executed) for _, executed in found),
    )


def table(steps: list[Step]) -> str:
    """The figures as text."""
    rows = [f"{'':44}{'recall':>8}{'precision':>11}{'missed':>8}{'extra':>7}"]
    known = [step for step in steps if not step.is_deliberate]
    for name, group in (("every change", steps), ("without what nobody can know", known)):
        for method, named in (("plumb", _plumb), ("rdeps", _rdeps)):
            found = score(group, named)
            missed, extra = found.executed - found.right, found.named - found.right
            title = f"{method}, {name} ({len(group)})"
            figures = f"{found.recall:8.3f}{found.precision:11.3f}{missed:8}{extra:7}"
            rows.append(f"{title:44}{figures}")
    return "\n".join(rows)


def wrong(step: Step) -> str:
    """What plumb missed or named beside it, "" if it was exact."""
    missed, extra = step.executed - step.plumb, step.plumb - step.executed
    parts = []
    if missed:
        parts.append(f"missed {len(missed)}: {' '.join(sorted(missed)[:4])}")
    if extra:
        parts.append(f"extra {len(extra)}: {' '.join(sorted(extra)[:4])}")
    return f"{' + '.join(step.kinds)}: {'; '.join(parts)}" if parts else ""


def _plumb(step: Step) -> frozenset[str]:
    return step.plumb


def _rdeps(step: Step) -> frozenset[str]:
    return step.rdeps
