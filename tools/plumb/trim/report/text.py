"""The answer to `plumb trim --drop …` for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.plumb.answer.words import counted
from tools.plumb.trim.answer import Answer
from tools.plumb.trim.evidence.judge import Judgement
from tools.plumb.trim.outcome import CellChange, Dropped, State, Verdict
from tools.plumb.trim.saving import Saving

_COLOURS = {
    State.LOST: "bold red",
    State.WEAKENED: "yellow",
    State.KEPT: "green",
    State.WON: "green",
    State.STILL_MISSING: "bold red",
    Verdict.SAFE: "green",
    Verdict.WEAKENS: "yellow",
    Verdict.LOSES: "bold red",
    Verdict.NEVER_RAN: "dim",
    Verdict.NO_CLAIM: "yellow",
}
_REMARKS = {
    Verdict.NEVER_RAN: "it never runs where it is declared, so nothing is lost with it",
    Verdict.NO_CLAIM: "it names no claim: the graph cannot say what is lost; see --evidence",
}
_MANY = 3
_FILES = 10


def print_answer(console: Console, answer: Answer, judged: Sequence[Judgement]) -> None:
    """Savings, each test that goes with its cells, and what keeps the change from going in."""
    _print_savings(console, answer)
    for dropped in answer.dropped:
        _print_dropped(console, answer, dropped)
    for label, test in answer.merged.items():
        said = "?" if test.seconds is None else f"{test.seconds} s"
        _line(console, f"\n[bold]{escape(label)}[/bold] carries the merged tests, {said}")
    won = answer.of_state(State.WON)
    if won:
        console.print("\n[bold]Won[/bold]")
        for cell in won:
            _print_cell(console, cell)
    if answer.unmet:
        console.print("\n[bold red]Promised by a test of this change, and not covered[/bold red]")
        for cell in answer.unmet:
            why = escape(cell.missing.sentence) if cell.missing else ""
            _line(console, f"  {escape(str(cell.cell))}: {why}")
    for judgement in judged:
        print_judgement(console, judgement)
    _print_waivers(console, answer)
    _print_refusal(console, answer)


def print_judgement(console: Console, judged: Judgement) -> None:
    """What the evidence says of one test that goes."""
    colour = "green" if judged.proven else "yellow"
    label = escape(judged.label)
    _line(console, f"\n[bold]Evidence[/bold] for {label}: [{colour}]{judged.verdict}[/{colour}]")
    for reason in judged.reasons:
        _line(console, f"  {escape(reason)}")
    for path, lines in list(judged.lines.items())[:_FILES]:
        more = f" and {len(lines) - _FILES} more" if len(lines) > _FILES else ""
        _line(console, f"  only it runs {escape(path)}: {', '.join(lines[:_FILES])}{more}")
    if len(judged.lines) > _FILES:
        further = len(judged.lines) - _FILES
        said = f"{judged.line_count} lines in all; --format json has them"
        _line(console, f"  and lines of {further} more files, {said}")
    for fault in judged.faults:
        _line(console, f"  only it kills {escape(fault)}")


def print_plan(console: Console, answer: Answer) -> None:
    """What the optimiser lets go and merges, with what that saves."""
    _print_savings(console, answer)
    for label, test in answer.merged.items():
        merge = next(m for m in answer.change.merges if m.labels[0] == label)
        said = "?" if test.seconds is None else f"{test.seconds} s"
        _line(console, f"merge {escape(' + '.join(merge.labels))}: {said}")
    for dropped in answer.dropped:
        if dropped.test.label in answer.change.drop:
            seconds = dropped.test.seconds or 0
            losses = [str(cell.cell) for cell in dropped.cells if cell.is_loss]
            lost = f"; gives up {', '.join(losses[:_MANY])}" if losses else ""
            _line(console, f"drop {escape(dropped.test.label)}: {seconds} s{escape(lost)}")


def _print_savings(console: Console, answer: Answer) -> None:
    table = Table(title="What it saves", title_justify="left")
    table.add_column("suite", no_wrap=True)
    for name in ("tests", "before", "after", "change", "GPU-s before", "GPU-s after", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, saving in answer.suites.items():
        table.add_row(escape(name), *_figures(saving))
    table.add_section()
    for name, saving in answer.pools.items():
        table.add_row(f"pool {escape(name)}", *_figures(saving))
    console.print(table)
    unknown = answer.total.before.without_seconds
    if unknown:
        _line(console, f"[dim]{unknown} tests declare no seconds, and count as 0.[/dim]")


def _figures(saving: Saving) -> list[str]:
    before, after, change = saving.before, saving.after, saving.change
    return [
        f"{change.tests:+d}",
        f"{before.seconds} s",
        f"{after.seconds} s",
        _signed(change.seconds, " s"),
        f"{before.gpu_seconds}" if before.gpu_seconds or after.gpu_seconds else "",
        f"{after.gpu_seconds}" if before.gpu_seconds or after.gpu_seconds else "",
        _signed(change.gpu_seconds, "") if before.gpu_seconds or after.gpu_seconds else "",
    ]


def unclaimed(answer: Answer) -> str:
    """What is to be said of the tests that go without a claim; "" if there is none."""
    count = sum(one.verdict is Verdict.NO_CLAIM for one in answer.dropped)
    if not count:
        return ""
    said = "that goes names" if count == 1 else "that go name"
    return (
        f"Unknown: {counted(count, 'test')} {said} no claim, so the graph cannot say what is lost; "
        "--evidence compares lines and planted faults."
    )


def _signed(value: int, unit: str) -> str:
    colour = "green" if value < 0 else "yellow" if value > 0 else "dim"
    return f"[{colour}]{value:+d}{unit}[/{colour}]"


def _print_dropped(console: Console, answer: Answer, dropped: Dropped) -> None:
    test, verdict = dropped.test, dropped.verdict
    cost = "no seconds declared" if test.seconds is None else f"{test.seconds} s"
    cost += f" on {test.gpus} GPUs" if test.gpus > 1 else ""
    colour = _COLOURS[verdict]
    said = f"[{colour}]{verdict}[/{colour}]"
    _line(console, f"\n[bold]{escape(test.label)}[/bold] goes ({cost}): {said}")
    if verdict in _REMARKS:
        _line(console, f"  {_REMARKS[verdict]}")
    for cell in sorted(dropped.cells, key=lambda c: (not c.is_loss, c.cell.order)):
        _print_cell(console, cell)
    for doubt in answer.doubts.get(test.label, ()):
        _line(console, f"  [yellow]doubtful[/yellow]: {escape(doubt)}")


def _print_cell(console: Console, change: CellChange) -> None:
    colour = _COLOURS[change.state]
    if change.missing is not None:
        after = change.missing.sentence
        near = [near.test.label for near in change.missing.near[:_MANY]]
        after += f" ({', '.join(near)})" if near else ""
    else:
        named = [test.label for test in change.after]
        further = f" and {len(named) - _MANY} more" if len(named) > _MANY else ""
        after = f"by {', '.join(named[:_MANY])}{further}"
    state = f"[{colour}]{change.state}[/{colour}]"
    _line(console, f"  {state}: {escape(str(change.cell))}, {escape(after)}")


def _print_waivers(console: Console, answer: Answer) -> None:
    if answer.waivers.accepted:
        console.print("\n[bold]Accepted by a waiver[/bold]")
    for waiver in answer.waivers.accepted:
        said = f"{waiver.cell}: {waiver.reason} ({waiver.owner}, until {waiver.expires})"
        _line(console, f"  {escape(said)}")


def _print_refusal(console: Console, answer: Answer) -> None:
    if answer.missing_elsewhere:
        said = f"{answer.missing_elsewhere} further demanded cells were missing before as well"
        _line(console, f"\n[dim]{said}; `plumb coverage --missing` lists them.[/dim]")
    refused = answer.refused
    unknown = unclaimed(answer)
    if unknown and not refused:
        _line(console, f"\n[bold yellow]{unknown}[/bold yellow]")
        return
    if not refused:
        console.print("\n[bold green]Nothing is lost that nobody accepted.[/bold green]")
        return
    console.print(f"\n[bold red]{len(refused)} to settle before this goes in[/bold red]")
    for text in refused:
        _line(console, f"  {escape(text)}")


def _line(console: Console, markup: str) -> None:
    console.print(markup, soft_wrap=True)
