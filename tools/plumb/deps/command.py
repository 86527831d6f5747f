"""`plumb deps check` and `plumb deps fix`: options in, findings out."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from tools.plumb import streams
from tools.plumb.answer.words import counted
from tools.plumb.deps import calls, check, fix, report
from tools.plumb.deps.findings import Finding, matches
from tools.plumb.deps.load import load
from tools.plumb.deps.workspace import Workspace
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.revision import Loader

# One edit can show the next: a macro's dep, or a module that two targets provided.
_ROUNDS = 3
_EPILOG = """
[bold]Exit codes[/bold]

0 the graph is true. 3 something is missing, unused or unknown.
1 Bazel or buildozer failed. 2 wrong usage. 7 Bazel cannot load the workspace.
8 interrupted. 36 the machine lacks something. 141 the reader of the answer went away.
"""
Open = Callable[[Path | None], Loader]
Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET", help="//p:t, //p:all or //p/...; by default every Python target."
    ),
]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="A folder in the Bazel workspace; by default this one.",
    ),
]


class Format(StrEnum):
    """How the findings are printed."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the findings.")]


def register(
    app: typer.Typer, open_loader: Open, group: type[TyperGroup], command: type[TyperCommand]
) -> None:
    """Adds `deps` to the command line.

    open_loader: finds a workspace from --workspace. group, command: how help is printed.
    """
    deps = typer.Typer(
        cls=group,
        no_args_is_help=True,
        help="Compares what Python targets import with what they declare.",
    )
    app.add_typer(deps, name="deps")

    @deps.command("check", cls=command, epilog=_EPILOG)
    def check_command(
        targets: Targets = None,
        output: FormatOption = Format.TEXT,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Finds deps and data that are missing, unused, or known to nobody."""
        with_interrupt(lambda: _check(open_loader(workspace), targets or [], output))

    @deps.command("fix", cls=command, epilog=_EPILOG)
    def fix_command(
        targets: Targets = None,
        dry_run: Annotated[
            bool,
            typer.Option("--dry-run", metavar="", help="Print what buildozer would be told."),
        ] = False,
        output: FormatOption = Format.TEXT,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Edits the BUILD files with buildozer, then prints what is left to be done by hand."""
        with_interrupt(lambda: _fix(open_loader(workspace), targets or [], output, dry_run))


def with_interrupt(work: Callable[[], NoReturn]) -> NoReturn:
    """Does the work; Ctrl-C ends it with a sentence."""
    try:
        work()
    except KeyboardInterrupt as error:
        raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error


def _check(loader: Loader, targets: list[str], output: Format) -> NoReturn:
    workspace = load(loader)
    _finish(workspace, findings_of(workspace, targets), output)


def _fix(loader: Loader, targets: list[str], output: Format, dry_run: bool) -> NoReturn:
    workspace = load(loader)
    findings = findings_of(workspace, targets)
    if dry_run:
        with streams.answering(streams.stdout_console()):
            for line in fix.commands(findings):
                typer.echo(line)
        raise typer.Exit(ExitCode.TESTS_FAILED if findings else ExitCode.OK)
    for _ in range(_ROUNDS):
        if not any(finding.fixable for finding in findings):
            break
        buildozer = fix.find_buildozer(loader.workspace, loader.notify)
        fix.apply(loader.workspace, findings, buildozer)
        mended = sum(finding.fixable for finding in findings)
        loader.notify(f"buildozer was told {counted(mended, 'edit')}; checking again")
        workspace = load(loader)
        findings = findings_of(workspace, targets)
    _finish(workspace, findings, output)


def findings_of(workspace: Workspace, targets: list[str]) -> list[Finding]:
    """The findings; raises PlumbError for a target that is none, or a BUILD file that is odd."""
    try:
        # A macro's call has a name of its own.
        known = {*workspace.python, *(call.label for call in calls.declared(workspace))}
        for pattern in targets:
            if not any(matches(label, [pattern]) for label in known):
                raise PlumbError(
                    f"no Python target matches '{pattern}'; write //package:target, "
                    "//package:all or //package/..."
                )
        return check.check(workspace, targets)
    except SyntaxError as error:
        raise PlumbError(
            f"{error.filename}:{error.lineno}: {error.msg}; plumb reads BUILD files as Python.",
            ExitCode.GRAPH_FAILED,
        ) from error


def _finish(workspace: Workspace, findings: list[Finding], output: Format) -> NoReturn:
    with streams.answering(streams.stdout_console()):
        if output is Format.JSON:
            typer.echo(report.as_json(findings, len(workspace.python)))
        else:
            for line in report.lines(findings, len(workspace.python), _command(workspace)):
                typer.echo(line)
    raise typer.Exit(ExitCode.TESTS_FAILED if findings else ExitCode.OK)


def _command(workspace: Workspace) -> str:
    own = (workspace.root / "tools/plumb/deps/BUILD.bazel").is_file()
    return "tools/bazel run //tools/plumb --" if own else "plumb"
