"""Why a cell is not covered: which tests come near, and what each of them lacks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tools.plumb.cells.model import LABELLED, NIGHTLY, Cell, Model, Test, fulfils


class Lack(StrEnum):
    """What a test lacks to cover a cell whose claim it names; NOTHING: no test names it."""

    NOTHING = "nothing"
    NEVER_RUNS = "never_runs"
    SKIPPED = "skipped"
    NIGHTLY = "only_nightly"
    LABELLED = "only_labelled"
    CADENCE = "other_cadence"
    LEVEL = "other_level"
    ARCHITECTURE = "other_architecture"


SENTENCES = {
    Lack.NOTHING: "nothing covers it",
    Lack.NEVER_RUNS: "only tests that never run",
    Lack.SKIPPED: "skipped on that architecture",
    Lack.NIGHTLY: "only nightly",
    Lack.LABELLED: "only label-gated",
    Lack.CADENCE: "only less often",
    Lack.LEVEL: "only another level",
    Lack.ARCHITECTURE: "only another architecture",
}
# Of what one test lacks, that which comes first here says most.
_TELLING = tuple(Lack)
# Of tests that lack as many things each the one comes first that asserts most for the cell: what
# runs there at all, then what was meant to run there, then what runs elsewhere.
_NEAREST = (
    *(Lack.NIGHTLY, Lack.LABELLED, Lack.CADENCE, Lack.LEVEL),
    *(Lack.NEVER_RUNS, Lack.SKIPPED, Lack.ARCHITECTURE),
)


@dataclass(frozen=True)
class Near:
    """A test that names the cell's claim and does not cover it, and all that it lacks."""

    test: Test
    lacks: tuple[Lack, ...]


@dataclass(frozen=True)
class Missing:
    """An uncovered cell. reason: what the nearest test lacks; near: nearest first."""

    cell: Cell
    reason: Lack
    near: tuple[Near, ...]

    @property
    def sentence(self) -> str:
        """The reason in words, with the nearest test's own remark where it has one."""
        text = SENTENCES[self.reason]
        if not self.near:
            return text
        test = self.near[0].test
        if self.reason is Lack.SKIPPED and test.skipped_on.get(self.cell.arch):
            return f"{text}: {test.skipped_on[self.cell.arch]}"
        if self.reason is Lack.NEVER_RUNS:
            return f"{text}: {test.idle or 'skipped on its own architecture'}"
        return text


def lacks(model: Model, test: Test, cell: Cell) -> tuple[Lack, ...]:
    """What the test, which names the cell's claim, lacks to cover it; empty if it covers it."""
    found = []
    if test.idle is not None or (test.skips and test.arch != cell.arch):
        found.append(Lack.NEVER_RUNS)
    if cell.arch in test.skipped_on:
        found.append(Lack.SKIPPED)
    elif test.arch != cell.arch:
        found.append(Lack.ARCHITECTURE)
    if not fulfils(test.cadence, cell.cadence):
        rarely = {NIGHTLY: Lack.NIGHTLY, LABELLED: Lack.LABELLED}
        found.append(rarely.get(test.cadence, Lack.CADENCE))
    if not model.of_level(test, cell.claim):
        found.append(Lack.LEVEL)
    return tuple(sorted(found, key=_TELLING.index))


def near(model: Model, cell: Cell) -> tuple[Near, ...]:
    """The tests that name the cell's claim and do not cover it, those that lack least first."""
    found = [Near(test, lacks(model, test, cell)) for test in model.by_claim.get(cell.claim, ())]
    short = [one for one in found if one.lacks]
    return tuple(
        sorted(
            short,
            key=lambda one: (
                len(one.lacks),
                [_NEAREST.index(lack) for lack in one.lacks],
                one.test.label,
            ),
        )
    )


def explain(model: Model, cell: Cell) -> Missing:
    """Why the cell, which no test covers, is not covered."""
    close = near(model, cell)
    return Missing(cell, close[0].lacks[0] if close else Lack.NOTHING, close)


def missing(model: Model) -> list[Missing]:
    """Each demanded cell that no test covers, sorted, with the reason."""
    cells = sorted(model.demanded, key=lambda cell: cell.order)
    return [explain(model, cell) for cell in cells if not model.covering(cell)]
