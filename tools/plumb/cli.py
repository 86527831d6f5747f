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
from rich.console import Console
from rich.markup import escape

from tools.plumb import affected, cache, pools, report, run
from tools.plumb.bazel import Place
from tools.plumb.errors import ExitCode, PlumbError, Terminated
from tools.plumb.git import Repository
from tools.plumb.graph import canonical
from tools.plumb.inputs import WORKSPACE_FILES
from tools.plumb.revision import Loader, load_both

VERSION = "0.1"
_PIPE_WIDTH = 160
_errors = Console(stderr=True, soft_wrap=True, highlight=False)
app = typer.Typer(
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

plumb affected --base main --why //testing/quant:int8_linear_test_cpu

[bold]Exit codes[/bold]

0 answered; with --run: nothing affected, or all that ran passed.
1 with --run: a build or an analysis failed. 2 wrong usage: unknown option, revision or target.
3 with --run: tests failed. 7 Bazel cannot load the head.
8 interrupted. 36 the machine lacks something: git, Bazel, a writable cache.
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
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Asks the Bazel target graph which tests a change can break."""


@app.command("affected", epilog=_EPILOG)
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
        bool, typer.Option("--run", help="Run the affected tests that this machine can.")
    ] = False,
    why: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Say why TARGET is affected, or is not.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
        Format.TEXT
    ),
    manual: Annotated[
        bool, typer.Option("--manual", help="Count tests tagged manual as well.")
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
        _affected(base, head, run_tests, why, output, manual, find_workspace(workspace))
    except KeyboardInterrupt as error:
        raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error


def _affected(
    base: str,
    head: str | None,
    run_tests: bool,
    why: str | None,
    output: Format,
    manual: bool,
    root: Path,
) -> None:
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
        reason = explain(comparison, why, newer.graph.targets) if why is not None else None
    answer = report.Answer(base_tree, head_tree, comparison, reason)
    configs = newer.steering.configs
    if not run_tests:
        _finish(answer, None, configs, output)
    if head is None or not (comparison.tests or comparison.access.users):
        _finish(answer, Place(root, root), configs, output)
    with loader.exported(head_tree) as place:
        _finish(answer, place, configs, output)


def _width() -> int | None:
    # A file or a pipe has no width; labels should not be folded there.
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH


def _notify(text: str) -> None:
    _errors.print(f"[dim]plumb: {escape(text)}[/dim]")


def _finish(
    answer: report.Answer, place: Place | None, configs: set[str], output: Format
) -> NoReturn:
    """Prints the answer, runs the tests in `place` unless it is None, and ends the command."""
    console = Console(highlight=False, width=_width())
    text = output is Format.TEXT
    if text and answer.why is not None:
        report.print_why(console, answer.why)
    elif text:
        report.print_text(console, answer)
    sys.stdout.flush()
    outcome = None
    if place is not None:
        outcome = run.run(answer.comparison, pools.local_gpus(), place, configs, _notify)
    if text and outcome is not None:
        report.print_outcome(console, outcome.fields())
    if not text:
        ran = None if outcome is None else outcome.fields()
        typer.echo(report.as_json(replace(answer, run=ran)))
    raise typer.Exit(ExitCode.OK if outcome is None else outcome.code)


def explain(comparison: affected.Comparison, target: str, known: Any) -> dict[str, Any]:
    """Why `target` is affected, or that it is not.

    known: labels of the head. Raises PlumbError with near names for a target that is not there.
    """
    label = canonical(target if target.startswith(("//", "@")) else f"//{target}")
    tracer = comparison.tracer
    fields = {
        "target": label,
        "affected": True,
        "text": "",
        "file": None,
        "chain": [label],
        "changes": [],
    }
    if label not in known:
        near = affected.nearest(label, known)
        raise PlumbError(
            f"there is no target {label} in the head."
            + (f" Did you mean {' or '.join(near)}?" if near else "")
        )
    if tracer is not None and tracer.changed(label):
        chain = tracer.chain(label)
        changes = [vars(change) for change in chain.changes]
        return fields | {
            "text": affected.describe(chain),
            "file": chain.file,
            "chain": chain.labels,
            "changes": changes,
        }
    if comparison.everything:
        return fields | {"text": comparison.everything[0]}
    if any(t.label == label for t in comparison.tests):
        return fields | {"text": next(t.because for t in comparison.tests if t.label == label)}
    return fields | {"affected": False, "text": "nothing that it depends on differs"}


def find_workspace(named: Path | None) -> Path:
    """The Bazel workspace around `named`, around where `bazel run` was called, or around here.

    Raises PlumbError if there is none.
    """
    start = named or Path(os.environ.get("BUILD_WORKING_DIRECTORY") or Path.cwd())
    start = start.absolute()
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
    try:
        app(prog_name="plumb", standalone_mode=True)
    except PlumbError as error:
        _errors.print(f"[bold red]plumb:[/bold red] {escape(str(error))}")
        sys.exit(error.code)
    except BrokenPipeError:
        # The reader of a pipe, such as head, has seen enough; the interpreter flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except OSError as error:
        _errors.print(f"[bold red]plumb:[/bold red] {escape(str(error))}")
        sys.exit(ExitCode.ENVIRONMENT)
    sys.exit(ExitCode.OK)
