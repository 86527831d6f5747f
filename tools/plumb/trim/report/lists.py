"""Candidates and the optimiser's choice for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.plumb.trim.optimise.result import Choice, Price
from tools.plumb.trim.propose.candidate import Candidate, Kind

_SHOWN = 10
_EVIDENCE = 14
_WHAT = {
    Kind.TWINS: "one shape, other flags or constants",
    Kind.SERVERS: "one server can carry both",
    Kind.DEAD: "never runs",
    Kind.DOMINATED: "cheaper tests cover all of it",
    Kind.STALE: "declared seconds far from measured ones",
}


def print_candidates(console: Console, candidates: Sequence[Candidate], all_of_them: bool) -> None:
    """Each kind with its dearest candidates and their evidence; all with `all_of_them`."""
    if not candidates:
        console.print("Nothing to propose: no twins, mergeable servers, dead or dominated tests.")
    for kind in Kind:
        members = [candidate for candidate in candidates if candidate.kind is kind]
        if not members:
            continue
        console.print(f"\n[bold]{kind}[/bold] ({_WHAT[kind]}): {len(members)}")
        shown = members if all_of_them else members[:_SHOWN]
        for candidate in shown:
            _print_candidate(console, candidate, all_of_them)
        if len(members) > len(shown):
            _line(console, f"[dim]  and {len(members) - len(shown)} more; --all shows them[/dim]")


def _print_candidate(console: Console, candidate: Candidate, whole: bool) -> None:
    saves = ""
    if candidate.gpu_seconds or candidate.seconds:
        gpu = f", {candidate.gpu_seconds} GPU-s" if candidate.gpu_seconds else ""
        saves = f" [cyan](at most {candidate.seconds} s{gpu})[/cyan]"
    _line(console, f"  {escape(candidate.title)}{saves}")
    evidence = candidate.evidence if whole else candidate.evidence[:_EVIDENCE]
    for text in evidence:
        colour = {"-": "red", "+": "green"}.get(text[:1], "dim")
        _line(console, f"    [{colour}]{escape(text)}[/{colour}]")
    if len(evidence) < len(candidate.evidence):
        _line(console, f"    [dim]and {len(candidate.evidence) - len(evidence)} more lines[/dim]")
    for text in candidate.doubts:
        _line(console, f"    [yellow]but {escape(text)}[/yellow]")


def print_choice(console: Console, choice: Choice) -> None:
    """The proof, then what claims cost, dearest first."""
    proof = choice.proof
    how = "[green]optimal[/green]" if proof.proven else "[yellow]not proven[/yellow]"
    console.print(
        f"\n[bold]Optimum[/bold] {how}: {proof.goal} {proof.value}, bound {proof.bound:g}, gap "
        f"{100 * proof.gap:.2g} %, {proof.nodes} nodes; {proof.rows} cells, {proof.columns} choices"
    )
    console.print(
        f"What stays takes {choice.gpu_seconds} GPU-s and {choice.cpu_seconds} CPU-s, and keeps "
        f"{choice.kept} of {proof.rows} cells."
    )
    if choice.undeclared:
        named = ", ".join(choice.undeclared[:3])
        _line(
            console,
            f"[yellow]{len(choice.undeclared)} tests declare no seconds and counted as free: "
            f"{escape(named)}[/yellow]",
        )
    for cell in choice.given_up[:_SHOWN]:
        _line(console, f"  [red]given up[/red]: {escape(str(cell))}")
    if len(choice.given_up) > _SHOWN:
        console.print(f"  and {len(choice.given_up) - _SHOWN} more")
    _print_prices(console, choice)


def _print_prices(console: Console, choice: Choice) -> None:
    paid = [price for price in choice.prices if price.gpu_seconds or price.cpu_seconds]
    if not paid:
        return
    single = [price for price in paid if len(price.claims) == 1]
    table = Table(title="What a claim costs to keep", title_justify="left")
    table.add_column("claim", no_wrap=True)
    table.add_column("GPU-s", justify="right")
    table.add_column("CPU-s", justify="right")
    for price in paid[:_SHOWN]:
        mark = "" if price.exact else " (not proven)"
        claim = f"{escape(_named(price))}{mark}"
        table.add_row(claim, str(price.gpu_seconds), str(price.cpu_seconds))
    console.print(table)
    free = len([price for price in choice.prices if len(price.claims) == 1]) - len(single)
    console.print(
        f"[dim]{len(single)} claims cost something each; {free} nothing alone, since others "
        "hold their tests"
        + (f"; {choice.unpriced} were not reached in time" if choice.unpriced else "")
        + ".[/dim]"
    )


def _named(price: Price) -> str:
    more = f" and {len(price.claims) - 3} more" if len(price.claims) > 3 else ""
    return " + ".join(price.claims[:3]) + more


def _line(console: Console, markup: str) -> None:
    console.print(markup, soft_wrap=True)
