"""The command line: reads the options, calls the modules, turns errors into sentences."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from tools.plumb import affected, cache, pools, report, run, streams
from tools.plumb.bazel import Place
from tools.plumb.deps import command as deps_command
from tools.plumb.errors import ExitCode, PlumbError, Terminated
from tools.plumb.explain import explain
from tools.plumb.git import Repository
from tools.plumb.inputs import WORKSPACE_FILES
from tools.plumb.revision import Loader, load_both

VERSION = "0.1"
_errors = streams.Output(stderr=True, soft_wrap=True, highlight=False)


class _Command(TyperCommand):
    def get_help_option(self, ctx: Any) -> Any:
        return _flag(super().get_help_option(ctx))


class _Group(TyperGroup):
    def get_help_option(self, ctx: Any) -> Any:
        return _flag(super().get_help_option(ctx))


def _flag(option: Any) -> Any:
    # Typer would show <bool>, as if a value had to follow.
    if option is not None:
        option.metavar = ""
    return option


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_EPILOG = """
[bold]Examples[/bold]

plumb affected --base HEAD~1  [dim]# what my last commit and my uncommitted edits can break[/dim]

plumb affected --base main --run  [dim]# run it, as far as this machine can[/dim]

plumb affected --base main --head topic --format json  [dim]# for a program[/dim]

plumb affected --base main --why //testing/quant:int8_channel_linear_test_cpu

[bold]Exit codes[/bold]

0 answered; with --run: nothing affected, or all that ran passed.
1 with --run: a build or an analysis failed. 2 wrong usage: unknown option, revision or target.
3 with --run: tests failed. 7 Bazel cannot load the head.
8 interrupted. 36 the machine lacks something: git, Bazel, a writable cache.
141 the reader of the answer, such as head, went away.
"""


class Format(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"plumb {VERSION}")
        raise typer.Exit


@app.callback()
def plumb(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_print_version,
            is_eager=True,
            help="Print the version and stop.",
        ),
    ] = False,
) -> None:
    """Asks the Bazel target graph which tests a change can break."""


@app.command("affected", cls=_Command, epilog=_EPILOG)
def affected_command(
    base: Annotated[str, typer.Option(metavar="REV", help="Compare with this revision.")],
    head: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="The changed revision; by default the working tree, "
            "with uncommitted and untracked files.",
        ),
    ] = None,
    run_tests: Annotated[
        bool,
        typer.Option("--run", metavar="", help="Run the affected tests that this machine can."),
    ] = False,
    why: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Say why TARGET is affected, or is not.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
        Format.TEXT
    ),
    manual: Annotated[
        bool, typer.Option("--manual", metavar="", help="Count tests tagged manual as well.")
    ] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder in the Bazel workspace; by default this one."),
    ] = None,
) -> None:
    """Finds the tests that a change can break, prints them by pool, and can run them.

    Your checkout, git index and Bazel server are left alone: graphs are read in a private
    checkout under ~/.cache/plumbline. Only --run uses your workspace and server, as you would.
    """
    try:
        _affected(base, head, run_tests, why, output, manual, _start(workspace))
    except KeyboardInterrupt as error:
        raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error


def _affected(
    base: str,
    head: str | None,
    run_tests: bool,
    why: str | None,
    output: Format,
    manual: bool,
    start: Path,
) -> None:
    root = find_workspace(start)
    loader = Loader(Repository.find(root), root, cache.folder_for(root), _notify)
    with ExitStack() as stack:
        base_tree = loader.repository.tree_of(base)
        if head is None:
            scratch = loader.folder / "scratch"
            head_tree = stack.enter_context(loader.repository.working_tree(scratch))
        else:
            head_tree = loader.repository.tree_of(head)
        with _errors.status("comparing target graphs"):
            older, newer, no_base = load_both(loader, base_tree, head_tree)
        comparison = affected.compare(older, newer, no_base, manual=manual)
        known, folder = newer.graph.targets, _inside(root, start)
        reason = explain(comparison, why, known, folder) if why is not None else None
    answer = report.Answer(base_tree, head_tree, comparison, reason)
    configs = newer.steering.configs
    if not run_tests:
        _finish(answer, None, configs, output)
    if head is None or not (comparison.tests or comparison.access.users):
        _finish(answer, Place(root, root), configs, output)
    with loader.exported(head_tree) as place:
        _finish(answer, place, configs, output)


def _say(markup: str) -> None:
    try:
        _errors.print(markup)
    except OSError:
        # The answer and the exit code have to do without words.
        streams.give_up_stderr()


def _notify(text: str) -> None:
    _say(f"[dim]plumb: {escape(text)}[/dim]")


def _finish(
    answer: report.Answer, place: Place | None, configs: set[str], output: Format
) -> NoReturn:
    """Prints the answer, runs the tests in `place` unless it is None, and ends the command."""
    console = streams.stdout_console()
    text = output is Format.TEXT
    with streams.answering(console):
        if text and answer.why is not None:
            report.print_why(console, answer.why)
        elif text:
            report.print_text(console, answer)
    outcome = None
    if place is not None:
        outcome = run.run(answer.comparison, pools.local_gpus(), place, configs, _notify)
    ran = None if outcome is None else outcome.fields()
    with streams.answering(console):
        if text and ran is not None:
            report.print_outcome(console, ran)
        elif not text:
            typer.echo(report.as_json(replace(answer, run=ran)))
    raise typer.Exit(ExitCode.OK if outcome is None else outcome.code)


def _start(named: Path | None) -> Path:
    """The folder that the user means: `named`, where `bazel run` was called, or here."""
    return (named or Path(os.environ.get("BUILD_WORKING_DIRECTORY") or Path.cwd())).absolute()


def _loader(workspace: Path | None) -> Loader:
    root = find_workspace(_start(workspace))
    return Loader(Repository.find(root), root, cache.folder_for(root), _notify)


deps_command.register(app, _loader)


def _inside(root: Path, start: Path) -> str:
    """Where `start` is in the workspace, as a package's name; "" at its root."""
    found = start.resolve()
    return "/".join(found.relative_to(root).parts) if found.is_relative_to(root) else ""


def find_workspace(start: Path) -> Path:
    """The Bazel workspace around `start`. Raises PlumbError if there is none."""
    for folder in (start, *start.parents):
        if any((folder / name).is_file() for name in WORKSPACE_FILES):
            return folder.resolve()
    raise PlumbError(
        f"neither {start} nor a folder above it has a WORKSPACE or MODULE.bazel file. "
        "Run plumb in a Bazel workspace, or name one with --workspace."
    )


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def main() -> NoReturn:
    """Runs the command line; every foreseen error becomes a sentence on stderr."""
    signal.signal(signal.SIGTERM, _terminate)
    streams.open_missing()
    try:
        app(prog_name="plumb", standalone_mode=True)
    except PlumbError as error:
        _say(f"[bold red]plumb:[/bold red] {escape(str(error))}")
        sys.exit(error.code)
    except OSError as error:
        _say(f"[bold red]plumb:[/bold red] {escape(str(error))}")
        sys.exit(ExitCode.ENVIRONMENT)
    sys.exit(ExitCode.OK)
