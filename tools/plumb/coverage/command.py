"""`plumb coverage`: options in, the matrix or what is missing out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tools.plumb import streams
from tools.plumb.cells import load
from tools.plumb.coverage import as_json, text
from tools.plumb.coverage.matrix import Matrix, build
from tools.plumb.coverage.page.render import render
from tools.plumb.coverage.select import Wanted, select
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.revision import Loader

EPILOG = """
[bold]Examples[/bold]

plumb coverage --claim 'quant.int8*'  [dim]# what guards int8, test by test[/dim]

plumb coverage --missing  [dim]# demanded cells that nothing covers, and why[/dim]

plumb coverage --missing --pool b200

plumb coverage --test channel_linear_test_h100 --format json

plumb coverage --format html --output coverage.html  [dim]# one file, to look at or to send[/dim]

[bold]Exit codes[/bold]

0 answered; with --missing: every demanded cell is covered.
3 with --missing: cells are not covered. Or declarations contradict themselves.
2 wrong usage: an unknown claim, test, pool, package or suite, or filters that take nothing.
7 Bazel cannot load the workspace. 8 interrupted.
36 the machine lacks something. 141 the reader of the answer went away.
"""
# Claims of which each test is listed without being asked for.
_FEW = 12


class Format(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@dataclass(frozen=True)
class Request:
    """What the user asks for."""

    wanted: Wanted
    missing: bool
    detail: bool
    output: Format
    file: Path | None


Open = Callable[[Path | None], Loader]
Waiting = Callable[[], AbstractContextManager[object]]
Say = Callable[[str], None]
Names = list[str] | None


def register(app: typer.Typer, cls: type, open_loader: Open, waiting: Waiting, warn: Say) -> None:
    """Adds `coverage` to the command line.

    open_loader: finds a workspace from --workspace. waiting: makes a context that shows that
    something is going on. warn: prints a sentence on stderr.
    """

    @app.command("coverage", cls=cls, epilog=EPILOG)
    def coverage_command(
        claim: Annotated[
            Names, typer.Option(metavar="GLOB", help="Claims such as 'quant.int8*'; repeatable.")
        ] = None,
        test: Annotated[
            Names,
            typer.Option(metavar="GLOB", help="Tests, by label or by what follows its colon."),
        ] = None,
        pool: Annotated[
            Names, typer.Option(metavar="POOL", help="Tests of this pool; repeatable.")
        ] = None,
        package: Annotated[
            Names, typer.Option(metavar="PACKAGE", help="Tests in //a/b, or below //a/b/...")
        ] = None,
        suite: Annotated[
            Names, typer.Option(metavar="GLOB", help="Tests of suites, as their tags say.")
        ] = None,
        missing: Annotated[
            bool,
            typer.Option("--missing", metavar="", help="List demanded cells that nothing covers."),
        ] = False,
        detail: Annotated[
            bool,
            typer.Option("--detail", metavar="", help="List each cell's tests and their sources."),
        ] = False,
        output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
            Format.TEXT
        ),
        file: Annotated[
            Path | None,
            typer.Option("--output", metavar="FILE", help="Write the answer there, not to stdout."),
        ] = None,
        at: Annotated[
            str | None,
            typer.Option(metavar="REV", help="Ask of this revision; by default the working tree."),
        ] = None,
        graph: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="Ask of what `bazel query //... --output=streamed_jsonproto` printed.",
            ),
        ] = None,
        workspace: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR", help="A folder in the Bazel workspace; by default this one."
            ),
        ] = None,
    ) -> None:
        """Shows which tests guard each claim, on which architecture and how often.

        A cell is a claim on an architecture at a cadence. It is covered by a test that names the
        claim, is of its level, runs on that architecture, and runs at least as often.
        """
        packages = tuple(package or ())
        # `bazel run` starts in the runfiles, and the user means a folder of theirs.
        start = Path(os.environ.get("BUILD_WORKING_DIRECTORY") or Path.cwd())
        file, graph = (start / path if path else None for path in (file, graph))
        wanted = Wanted(
            tuple(claim or ()), tuple(test or ()), tuple(pool or ()), packages, tuple(suite or ())
        )
        request = Request(wanted, missing, detail, output, file)
        if at is not None and graph is not None:
            raise PlumbError("--at and --graph name two graphs; give one of them.")
        try:
            if graph is not None:
                loaded = load.of_file(graph, workspace)
            else:
                with waiting():
                    loaded = load.of_workspace(open_loader(workspace), at)
            _answer(request, loaded, warn)
        except KeyboardInterrupt as error:
            raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error


def _answer(request: Request, loaded: load.Loaded, warn: Say) -> NoReturn:
    matrix = build(loaded.model, select(loaded.model, request.wanted))
    if request.missing and not matrix.demanded:
        raise PlumbError(
            "no claim demands any of these cells, so none can be missing: register claims with "
            "their demands, as testing/private/coverage_claim.bzl does, or leave --missing out."
        )
    _write(request, loaded, matrix)
    _warn(loaded.model.problems, warn)
    failed = bool(loaded.model.problems) or (request.missing and bool(matrix.missing))
    raise typer.Exit(ExitCode.TESTS_FAILED if failed else ExitCode.OK)


def _write(request: Request, loaded: load.Loaded, matrix: Matrix) -> None:
    if request.output is Format.TEXT and request.file is None:
        _print(request, loaded, matrix, streams.stdout_console())
        return
    written = _as_text(request, loaded, matrix)
    if request.file is None:
        with streams.answering(streams.stdout_console()):
            typer.echo(written)
        return
    streams.write_file(request.file, f"{written}\n")


def _as_text(request: Request, loaded: load.Loaded, matrix: Matrix) -> str:
    if request.output is Format.TEXT:
        console = streams.stdout_console()
        with console.capture() as captured:
            _print(request, loaded, matrix, console)
        return captured.get().rstrip("\n")
    content = as_json.content(
        matrix, loaded.name, loaded.model.problems, loaded.text, request.missing
    )
    return as_json.dump(content) if request.output is Format.JSON else render(content)


def _print(request: Request, loaded: load.Loaded, matrix: Matrix, console: streams.Output) -> None:
    with streams.answering(console):
        if request.missing:
            text.print_missing(console, matrix)
            return
        text.print_matrix(console, matrix)
        asked = any(vars(request.wanted).values())
        if request.detail or (asked and len(matrix.rows) <= _FEW):
            text.print_detail(console, matrix, loaded.text)


def _warn(problems: Sequence[str], warn: Say) -> None:
    for problem in problems:
        warn(problem)
    if problems:
        warn(f"{len(problems)} declarations contradict themselves; the answer rests on them.")
