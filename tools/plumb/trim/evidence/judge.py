"""Whether a deletion is proven equivalent: what remains runs every line and kills every fault."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tools.plumb.cells.model import Model, Test, fulfils
from tools.plumb.trim.evidence.lines import ranges
from tools.plumb.trim.evidence.store import Evidence, Recorded

_SHOWN = 3


class Proof(StrEnum):
    """What the evidence says of a test that goes."""

    EQUIVALENT = "proven equivalent"
    EXCEPTIONS = "not equivalent"
    UNPROVEN = "not proven"


@dataclass(frozen=True)
class Judgement:
    """A test that goes.

    lines: path to runs of lines that only it runs; line_count: how many. faults: that only it
    kills; fault_count: how many it kills. reasons: what the verdict rests on, or lacks.
    """

    label: str
    verdict: Proof
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    line_count: int = 0
    faults: tuple[str, ...] = ()
    fault_count: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """True if nothing is lost with it, as far as was measured."""
        return self.verdict is Proof.EQUIVALENT


def judge(
    evidence: Evidence,
    before: Model,
    after: Model,
    gone: Sequence[str],
    text: Callable[[str], str | None],
) -> list[Judgement]:
    """A judgement on each test that goes.

    What remains counts where it runs on the same architecture and as often at least. text: a file's
    content as it is now; evidence of other content proves nothing.
    """
    changed = [path for path, digest in evidence.files.items() if digest_of(text(path)) != digest]
    return [_judge(evidence, before.tests[label], after, changed) for label in gone]


def digest_of(content: str | None) -> str:
    """sha256 of a text; "" for a file that is not there."""
    return "" if content is None else hashlib.sha256(content.encode(errors="replace")).hexdigest()


def _judge(evidence: Evidence, test: Test, after: Model, changed: Sequence[str]) -> Judgement:
    own = evidence.tests.get(test.label)
    if own is None:
        reason = "nothing was recorded of it: run `plumb trim evidence record` with it"
        return Judgement(test.label, Proof.UNPROVEN, reasons=(reason,))
    others = [
        label
        for label in evidence.tests
        if label in after.tests and _stands_in(after.tests[label], test)
    ]
    lines = _only(own.lines, [evidence.tests[label].lines for label in others])
    killed = frozenset().union(*(evidence.tests[label].killed for label in others))
    faults = tuple(sorted(own.killed - killed))
    stale = sorted(set(changed) & own.lines.keys())
    reasons = [_weighed(own, len(others))]
    if stale:
        listed = ", ".join(stale[:_SHOWN]) + (", …" if len(stale) > _SHOWN else "")
        reasons.append(f"recorded before {listed} changed: record it again")
    if not own.planted:
        reasons.append("no planted fault was tried on it: the lines alone speak")
    count = sum(len(numbers) for numbers in lines.values())
    verdict = Proof.EXCEPTIONS if faults or count else Proof.EQUIVALENT
    if verdict is Proof.EQUIVALENT and (stale or not own.lines or not own.planted):
        verdict = Proof.UNPROVEN
    return Judgement(
        test.label,
        verdict,
        {path: ranges(numbers) for path, numbers in sorted(lines.items())},
        count,
        faults,
        len(own.killed),
        tuple(reasons),
    )


def _stands_in(other: Test, gone: Test) -> bool:
    return other.runs and other.arch == gone.arch and fulfils(other.cadence, gone.cadence)


def _only(
    own: Mapping[str, set[int]], others: Sequence[Mapping[str, set[int]]]
) -> dict[str, set[int]]:
    found = {}
    for path, numbers in own.items():
        left = numbers.difference(*(other.get(path, set()) for other in others))
        if left:
            found[path] = left
    return found


def _weighed(own: Recorded, others: int) -> str:
    lines = sum(len(numbers) for numbers in own.lines.values())
    return (
        f"it runs {lines} lines of {len(own.lines)} files and kills {len(own.killed)} of "
        f"{len(own.planted)} planted faults; compared with {others} recorded tests that remain"
    )
