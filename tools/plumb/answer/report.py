"""Writes a comparison for people (tables) and for programs (JSON)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.plumb.answer.words import counted
from tools.plumb.compare import affected
from tools.plumb.compare.affected import Affected, Comparison
from tools.plumb.compare.why import Change, telling
from tools.plumb.pools import PER_COMMIT, Placement
from tools.plumb.trees.git import Tree

# Raised when a field of the JSON changes its meaning or goes away.
SCHEMA = 1
_LONGEST_VALUE = 400
# Of a table in a narrow terminal: that of the reasons at least, and of all but them and the labels.
_REASON_WIDTH, _REST_WIDTH = 16, 27


@dataclass(frozen=True)
class Answer:
    """A comparison with the two revisions that it is about.

    of: trees compared; why: what --why found; run: what --run did.
    """

    base: Tree
    head: Tree
    comparison: Comparison
    why: Mapping[str, Any] | None = None
    run: Mapping[str, Any] | None = None


def by_pool(tests: list[Affected]) -> dict[str, list[Affected]]:
    """The tests grouped by pool, cpu first, sorted by label."""
    pools = sorted({t.placement.pool for t in tests}, key=lambda pool: (pool != "cpu", pool))
    return {
        pool: sorted((t for t in tests if t.placement.pool == pool), key=lambda t: t.label)
        for pool in pools
    }


def totals(tests: list[Affected]) -> dict[str, int]:
    """Number of tests, sum of seconds, of GPU-seconds, and tests that state no seconds."""
    return sums([test.placement for test in tests])


def sums(places: list[Placement]) -> dict[str, int]:
    """As `totals`, of the tests that run at `places`."""
    return {
        "tests": len(places),
        "seconds": sum(place.seconds or 0 for place in places),
        "gpu_seconds": sum((place.seconds or 0) * place.gpus for place in places),
        "without_seconds": sum(place.seconds is None for place in places),
    }


def cadences(tests: list[Affected]) -> dict[str, int]:
    """Cadence to the number of its tests, the most frequent cadence first."""
    return dict(Counter(t.placement.cadence or PER_COMMIT for t in tests).most_common())


def rarer(tests: list[Affected]) -> str:
    """How many of the tests do not run on each commit, such as ' (3 nightly)'; "" if none."""
    found = [f"{n} {name}" for name, n in sorted(cadences(tests).items()) if name != PER_COMMIT]
    return f" ({', '.join(found)})" if found else ""


def saved(comparison: Comparison) -> dict[str, int]:
    """What running only the affected tests saves against running all of them."""
    whole, some = sums(comparison.whole), totals(comparison.tests)
    return {name: whole[name] - some[name] for name in ("tests", "seconds", "gpu_seconds")}


def as_json(answer: Answer) -> str:
    """The answer as one JSON object; README.md documents the fields."""
    comparison = answer.comparison
    pools = by_pool(comparison.tests)
    content = {
        "schema": SCHEMA,
        "base": {"revision": answer.base.name, "tree": answer.base.id},
        "head": {"revision": answer.head.name, "tree": answer.head.id},
        "everything": comparison.everything,
        "tests": [_test_fields(test) for tests in pools.values() for test in tests],
        "totals": {
            "all_tests": comparison.total,
            "affected": totals(comparison.tests),
            "saved": saved(comparison),
            "pools": {
                pool: totals(tests) | {"cadences": cadences(tests)} for pool, tests in pools.items()
            },
        },
        "unowned": [
            {"path": d.path, "affects": d.affects, "reason": d.reason, "mapped": d.mapped}
            for d in comparison.unowned
        ],
        "undecided": comparison.undecided,
        "removed": comparison.removed,
        "unchanged": comparison.unchanged,
        "access": {"changed": comparison.access.changed, "users": comparison.access.users},
        "why": answer.why,
        "run": answer.run,
    }
    fields = (f"{json.dumps(name)}: {_shown_json(value)}" for name, value in content.items())
    return "{\n  " + ",\n  ".join(fields) + "\n}"


def _shown_json(value: Any) -> str:
    """A list with a line for each of its values: json's own layout takes ten times as long."""
    if not isinstance(value, list) or not value:
        return json.dumps(value, default=str)
    return "[\n    " + ",\n    ".join(json.dumps(one, default=str) for one in value) + "\n  ]"


def print_text(console: Console, answer: Answer) -> None:
    """The answer as tables."""
    comparison = answer.comparison
    always = [test for test in comparison.tests if test.cause == affected.ALWAYS]
    tests = [test for test in comparison.tests if test.cause != affected.ALWAYS]
    _print_remarks(console, comparison)
    for pool, members in by_pool(tests).items():
        _print_table(console, _table(pool, members), members)
    ending = ""
    if always:
        count, seconds = len(always), totals(always)["seconds"]
        console.print(
            f"Always run, since they are tagged external: {counted(count, 'test')}, {seconds} s"
        )
        verb = "runs" if count == 1 else "run"
        ending = f"; {count} always {verb}, {seconds} s"
    if not comparison.total:
        console.print(f"Nothing affected: {escape(answer.head.name)} has no tests.")
        return
    if not tests:
        console.print(
            f"Nothing affected: none of {counted(comparison.total, 'test')} differs between "
            f"{escape(answer.base.name)} and {escape(answer.head.name)}{ending}."
        )
        return
    figures = totals(tests)
    unknown = figures["without_seconds"]
    whole = counted(comparison.total, "test")
    console.print(
        f"{figures['tests']} of {whole} affected{rarer(tests)}, "
        f"{figures['seconds']} s, {figures['gpu_seconds']} GPU-s"
        + (f" ({counted(unknown, 'test')} without seconds)" if unknown else "")
        + ending
    )
    spared = saved(comparison)
    if spared["tests"]:
        console.print(
            f"[dim]Saved against everything: {counted(spared['tests'], 'test')}, "
            f"{spared['seconds']} s, {spared['gpu_seconds']} GPU-s[/dim]"
        )


def print_why(console: Console, why: Mapping[str, Any]) -> None:
    """The chain from what changed to the target asked for."""
    target = escape(why["target"])
    if not why["affected"]:
        console.print(f"{target} is not affected: {escape(why['text'])}", soft_wrap=True)
        return
    console.print(f"{target} is affected: {escape(why['text'])}", soft_wrap=True)
    steps = [why["file"], *why["chain"]] if why["file"] else why["chain"]
    for depth, step in enumerate(steps):
        console.print(f"{'  ' * depth}{'-> ' if depth else ''}{escape(step)}", soft_wrap=True)
    for change in telling([Change(**fields) for fields in why["changes"]]):
        console.print(f"  {escape(change.name)}:", soft_wrap=True)
        console.print(f"    [red]- {_shown(change.old)}[/red]", soft_wrap=True)
        console.print(f"    [green]+ {_shown(change.new)}[/green]", soft_wrap=True)


def print_outcome(console: Console, run: Mapping[str, Any]) -> None:
    """What --run ran, as it stands in the JSON, and what it leaves to which pool."""
    if run["analysed"] is not None:
        count, code = run["analysed"]["targets"], run["analysed"]["bazel_exit"]
        result = "they may" if code == 0 else f"Bazel ended with exit code {code}"
        users = counted(count, "target")
        console.print(f"analysed what uses targets of another visibility, {users}: {result}")
    for pool, done in run["ran"].items():
        code = done["bazel_exit"]
        result = "all passed" if code == 0 else f"Bazel ended with exit code {code}"
        console.print(f"{pool}: ran {counted(done['tests'], 'test')}, {result}")
        for label in done["failed"]:
            console.print(f"  [red]failed[/red] {escape(label)}", soft_wrap=True)
    for pool, labels in run["left"].items():
        left = counted(len(labels), "test")
        _print_left(console, f"left to pool {pool}, which this machine is not: {left}", labels)
    for cadence, labels in run["waiting"].items():
        left = f"left to the {cadence} run: {counted(len(labels), 'test')}"
        runs = "runs it" if len(labels) == 1 else "runs them"
        _print_left(console, f"{left}; --cadence {cadence} {runs}", labels)


def _print_left(console: Console, heading: str, labels: list[str]) -> None:
    console.print(heading, soft_wrap=True)
    for label in labels:
        console.print(f"  {escape(label)}", soft_wrap=True)


def _print_remarks(console: Console, comparison: Comparison) -> None:
    reasons = comparison.everything if comparison.total else []
    for reason in reasons[:3]:
        console.print(f"[yellow]Every test is affected:[/yellow] {escape(reason)}", soft_wrap=True)
    if len(reasons) > 3:
        console.print(f"  ... and {counted(len(reasons) - 3, 'more reason')}")
    for decision in comparison.unowned:
        if decision.affects != affected.EVERYTHING:
            listed = isinstance(decision.affects, tuple)
            affects = " ".join(decision.affects) if listed else decision.affects
            said = f"{decision.path} affects {affects}: {decision.reason}"
            console.print(f"[dim]{escape(said)}[/dim]", soft_wrap=True)
    if comparison.undecided and comparison.total:
        named = escape(", ".join(comparison.undecided[:3]))
        more = " and more" if len(comparison.undecided) > 3 else ""
        console.print(
            f"[dim]No flag decides {named}{more}: every branch of such a select() counted.[/dim]",
            soft_wrap=True,
        )
    if comparison.access.users:
        count, shown = len(comparison.access.users), ", ".join(comparison.access.changed[:3])
        console.print(
            f"[yellow]Visibility changed:[/yellow] {escape(shown)}"
            + (" and more" if len(comparison.access.changed) > 3 else "")
            + f". No result can differ, but of what uses it {counted(count, 'target')} may be "
            "refused now; --run has Bazel analyse them."
        )
    if comparison.unchanged:
        number = counted(len(comparison.unchanged), "more test")
        console.print(
            f"[dim]{number} could differ, but what they read comes out the same.[/dim]",
            soft_wrap=True,
        )
    if comparison.removed:
        gone = escape(", ".join(comparison.removed))
        console.print(f"[dim]Tests that //... no longer runs: {gone}[/dim]", soft_wrap=True)


def _print_table(console: Console, table: Table, tests: list[Affected]) -> None:
    # A label that is cut or in two rows cannot be copied: rather the terminal breaks the frame.
    needed = max(cell_len(test.label) for test in tests) + _REST_WIDTH
    if any(column.header == "because" for column in table.columns):
        needed += _REASON_WIDTH
    width = console.width
    console.width = max(width, needed)
    console.print(table, crop=False)
    console.width = width


def _table(pool: str, tests: list[Affected]) -> Table:
    figures = totals(tests)
    table = Table(
        title=f"{pool}: {counted(figures['tests'], 'test')}{rarer(tests)}, {figures['seconds']} s"
        + (f", {figures['gpu_seconds']} GPU-s" if figures["gpu_seconds"] else ""),
        title_justify="left",
    )
    table.add_column("test", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    if pool != "cpu":
        table.add_column("GPUs", justify="right", no_wrap=True)
    # One reason for all of them stands above the table.
    reasons = any(test.cause != affected.EVERYTHING for test in tests)
    if reasons:
        table.add_column("because", overflow="fold", min_width=_REASON_WIDTH)
    for test in tests:
        place = test.placement
        seconds = "?" if place.seconds is None else str(place.seconds)
        gpus = [] if pool == "cpu" else [str(place.gpus)]
        because = [escape(test.because)] if reasons else []
        table.add_row(escape(test.label), seconds, *gpus, *because)
    return table


def _test_fields(test: Affected) -> dict[str, Any]:
    place = test.placement
    return {
        "label": test.label,
        "pool": place.pool,
        "gpus": place.gpus,
        "seconds": place.seconds,
        "cadence": place.cadence,
        "cause": test.cause,
        "because": test.because,
    }


def _shown(value: Any) -> str:
    text = "(none)" if value is None else json.dumps(value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"
    return escape(text)
