"""`plumb trim`: options in, the answer out."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from tools.plumb.cells import load
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.revision import Loader
from tools.plumb.trim.evidence import command as evidence_command
from tools.plumb.trim.propose.candidate import Kind
from tools.plumb.trim.request import Format, Request
from tools.plumb.trim.run import run

EPILOG = """
[bold]Examples[/bold]

plumb trim --drop //testing/e2e:mla_test_h100 --format markdown  [dim]# and what is lost by it[/dim]

plumb trim --merge //a:one_test_h100+//a:two_test_h100 --add //a:new_test_h100

plumb trim --propose --measured seconds.jsonl  [dim]# what could go, with the evidence[/dim]

plumb trim --optimise --budget 36000  [dim]# the most cells for ten GPU-hours[/dim]

plumb trim evidence record //testing/quant/... -o evidence.json  [dim]# what each runs[/dim]

[bold]Exit codes[/bold]

0 answered, and nothing is lost that no waiver accepts. 3 with --drop, --merge or --add: something
is, a suite would be empty, or a waiver has expired or matches nothing. 2 wrong usage, unknown
target, contradictory declarations. 7 Bazel cannot load the workspace. 8 interrupted.
36 the machine lacks something. 141 the reader of the answer went away.
"""
Open = Callable[[Path | None], Loader]


def register(
    app: typer.Typer, open_loader: Open, group: type[TyperGroup], command: type[TyperCommand]
) -> None:
    """Adds `trim` to the command line.

    open_loader: finds a workspace from --workspace. group, command: how help is printed.
    """
    trim = typer.Typer(cls=group, epilog=EPILOG, invoke_without_command=True)
    app.add_typer(trim, name="trim")
    evidence_command.register(trim, open_loader, group, command)

    @trim.callback(epilog=EPILOG)
    def trim_command(
        context: typer.Context,
        drop: Annotated[
            list[str] | None,
            typer.Option(
                metavar="TARGET", help="A test to delete: a label, a suite, //p/...; repeatable."
            ),
        ] = None,
        merge: Annotated[
            list[str] | None,
            typer.Option(
                metavar="A+B[=SECONDS]",
                help="Tests whose servers become one, under A's name; repeatable.",
            ),
        ] = None,
        add: Annotated[
            list[str] | None,
            typer.Option(
                metavar="TARGET", help="A test of the workspace to count as new; repeatable."
            ),
        ] = None,
        propose: Annotated[
            bool, typer.Option("--propose", metavar="", help="Say what could go, and why.")
        ] = False,
        kind: Annotated[
            list[Kind] | None, typer.Option(help="With --propose: of this kind only; repeatable.")
        ] = None,
        measured: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="With --propose: measured times, a history or JSON lines with target and "
                "seconds.",
            ),
        ] = None,
        show_all: Annotated[
            bool, typer.Option("--all", metavar="", help="With --propose: every candidate.")
        ] = False,
        optimise: Annotated[
            bool,
            typer.Option(
                "--optimise", metavar="", help="Find the cheapest tests that keep every cell."
            ),
        ] = False,
        budget: Annotated[
            int | None,
            typer.Option(
                metavar="GPU-SECONDS", help="With --optimise: keep the most cells within this."
            ),
        ] = None,
        keep: Annotated[
            list[str] | None,
            typer.Option(metavar="TARGET", help="With --optimise: a test that stays; repeatable."),
        ] = None,
        weight: Annotated[
            list[str] | None,
            typer.Option(
                metavar="CLAIM=N",
                help="With --budget: what each cell of a claim (a glob) is worth, 1 if unsaid.",
            ),
        ] = None,
        seconds: Annotated[
            float, typer.Option(help="With --optimise: how long the solver may take.")
        ] = 60.0,
        evidence: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="What `plumb trim evidence record` wrote."),
        ] = None,
        output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
            Format.TEXT
        ),
        graph: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help="A graph that `bazel query` wrote, instead of reading one."
            ),
        ] = None,
        workspace: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR", help="A folder in the Bazel workspace; by default this one."
            ),
        ] = None,
    ) -> None:
        """Says what deleting tests saves and loses, what could go, and what the cheapest set is."""
        if context.invoked_subcommand is not None:
            return
        request = Request(
            tuple(drop or ()),
            tuple(merge or ()),
            tuple(add or ()),
            propose,
            tuple(kind or ()),
            _resolved(measured),
            show_all,
            optimise,
            budget,
            tuple(keep or ()),
            tuple(weight or ()),
            seconds,
            _resolved(evidence),
            output,
        )
        raise typer.Exit(_answer(request, open_loader, graph, workspace))


def _answer(
    request: Request, open_loader: Open, graph: Path | None, workspace: Path | None
) -> ExitCode:
    assert request.question
    try:
        loaded = _load(open_loader, graph, workspace)
        return run(request, loaded, datetime.date.today())
    except KeyboardInterrupt as error:
        raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error


def _load(open_loader: Open, graph: Path | None, workspace: Path | None) -> load.Loaded:
    if graph is not None:
        return load.of_file(_resolved(graph) or graph, _resolved(workspace))
    return load.of_workspace(open_loader(workspace))


def _resolved(path: Path | None) -> Path | None:
    """A path from where the user called `bazel run`."""
    return None if path is None else Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / path
