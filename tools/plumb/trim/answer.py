"""The answer to `plumb trim --drop …`: what is saved, lost and doubtful, and whether it may be."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tools.plumb.cells.model import Cell, Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.trim import change as changes
from tools.plumb.trim import outcome, saving, waivers
from tools.plumb.trim.change import Change
from tools.plumb.trim.ground import Ground
from tools.plumb.trim.outcome import CellChange, Dropped, State
from tools.plumb.trim.propose import servers, twins


@dataclass(frozen=True)
class Answer:
    """What a change does.

    suites, pools: what each that is touched saves. unmet: cells that a test of the change names,
    that are demanded, and that nothing covers afterwards. missing_elsewhere: number of further
    demanded cells that nothing covers, before as after. emptied: suites whose last test goes.
    doubts: label of a dropped test to what speaks against those that stand in for it.
    """

    change: Change
    total: saving.Saving
    suites: Mapping[str, saving.Saving]
    pools: Mapping[str, saving.Saving]
    dropped: tuple[Dropped, ...]
    cells: tuple[CellChange, ...]
    unmet: tuple[CellChange, ...]
    missing_elsewhere: int
    emptied: tuple[str, ...]
    doubts: Mapping[str, tuple[str, ...]]
    waivers: waivers.Judged
    merged: Mapping[str, Test] = field(default_factory=dict)

    @property
    def losses(self) -> list[CellChange]:
        """Cells that were covered, and are not any more."""
        return [cell for cell in self.cells if cell.is_loss]

    def of_state(self, state: State) -> list[CellChange]:
        """The cells of that state."""
        return [cell for cell in self.cells if cell.state is state]

    @property
    def refused(self) -> list[str]:
        """Why the change may not go in as it is, a sentence each; empty if it may."""
        found = [
            f"{c.state}: {c.cell} ({c.missing.sentence if c.missing else ''})"
            for c in self.losses
            if c.cell not in self.waivers.cells
        ]
        found += [
            f"promised and not given: {c.cell} ({c.missing.sentence if c.missing else ''})"
            for c in self.unmet
            if c.cell not in self.waivers.cells
        ]
        found += [f"suite {s} would hold no test that runs, and pass" for s in self.emptied]
        found += [
            f"the waiver of {w.cell} by {w.owner} expired on {w.expires}: renew it, or cover that"
            for w in self.waivers.expired
        ]
        found += [
            f"the waiver of {w.cell} by {w.owner} matches no loss: delete it from {waivers.PATH}"
            for w in self.waivers.idle
        ]
        return found


def answer(
    ground: Ground, change: Change, held: Sequence[waivers.Waiver], today: datetime.date
) -> Answer:
    """What the change does to the workspace.

    Raises PlumbError for merges of tests that share no server, and for waivers of unknown claims.
    """
    model = ground.model
    for merge in change.merges:
        tests = [model.tests[label] for label in merge.labels]
        problem = servers.problem(ground.sources, tests, merge)
        if problem is not None:
            raise PlumbError(f"--merge {'+'.join(merge.labels)}: {problem}.")
    before, after = changes.before_and_after(model, change)
    cells = outcome.cell_changes(before, after, change)
    missing = [c for c in cells if c.state is State.STILL_MISSING]
    touched = {*change.add, *change.goes, *(merge.labels[0] for merge in change.merges)}
    unmet = [c for c in missing if c.missing and _promised(c, touched)]
    uncovered = {c.cell for c in cells if c.is_loss} | {c.cell for c in missing}
    judged = waivers.judge(held, _uncovered(held, after, uncovered), model.claims.keys(), today)
    return Answer(
        change,
        saving.Saving(
            saving.total(list(before.tests.values())), saving.total(list(after.tests.values()))
        ),
        saving.by(saving.suite_of, before, after),
        saving.by(lambda test: test.pool, before, after),
        tuple(outcome.dropped(before, change, cells)),
        tuple(c for c in cells if c.state is not State.STILL_MISSING),
        tuple(unmet),
        len(missing) - len(unmet),
        tuple(_emptied(ground, before, after)),
        _doubts(ground, change, cells),
        judged,
        {merge.labels[0]: after.tests[merge.labels[0]] for merge in change.merges},
    )


def _promised(cell: CellChange, touched: set[str]) -> bool:
    assert cell.missing is not None
    return any(near.test.label in touched and not near.test.runs for near in cell.missing.near)


def _uncovered(held: Sequence[waivers.Waiver], after: Model, uncovered: set[Cell]) -> set[Cell]:
    """With waived cells that no test names any more: what an earlier trim gave up."""
    return uncovered | {w.cell for w in held if not after.covering(w.cell)}


def _emptied(ground: Ground, before: Model, after: Model) -> list[str]:
    found = []
    for name in sorted({saving.suite_of(test) for test in before.tests.values()}):
        old, new = (
            any(test.runs for test in model.tests.values() if saving.suite_of(test) == name)
            for model in (before, after)
        )
        if old and not new:
            found.append(name)
    for label, members in ground.suites.items():
        old, new = (
            any(m in model.tests and model.tests[m].runs for m in members)
            for model in (before, after)
        )
        if old and not new:
            found.append(label)
    return found


def _doubts(
    ground: Ground, change: Change, cells: Sequence[CellChange]
) -> dict[str, tuple[str, ...]]:
    """Of each test that goes: how those that are like it, and keep its cells, differ from it."""
    found: dict[str, dict[str, None]] = {label: {} for label in change.goes}
    for cell in cells:
        gone = [test for test in cell.before if test.label in found]
        for test in gone:
            for keeper in cell.after:
                for doubt in _between(ground, test, keeper):
                    found[test.label].setdefault(doubt)
            for near in cell.missing.near if cell.missing else ():
                lacks = ", ".join(lack.replace("_", " ") for lack in near.lacks)
                doubt = f"{near.test.label} is no substitute for {cell.cell}: {lacks}"
                found[test.label].setdefault(doubt)
    for merge in change.merges:
        tests = [ground.model.tests[label] for label in merge.labels]
        for doubt in servers.unshared(ground.sources, tests):
            found[merge.labels[1]].setdefault(doubt)
    return {label: tuple(doubts) for label, doubts in found.items() if doubts}


def _between(ground: Ground, gone: Test, keeper: Test) -> list[str]:
    sources = ground.sources
    for path in sources.of(gone):
        for other in sources.of(keeper):
            one, two = sources.shape(path), sources.shape(other)
            if one is None or two is None or path == other:
                continue
            pair = twins.compare(one, two)
            if pair.alike >= twins.NEAR:
                return [f"{keeper.label} is no equal of it: {doubt}" for doubt in pair.doubts()]
    return []
