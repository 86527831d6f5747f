"""`plumb history …`: options in, what ran out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from tools.plumb import streams
from tools.plumb.cache import cache_root
from tools.plumb.cells.load import of_workspace
from tools.plumb.cells.model import Test
from tools.plumb.deps import calls, fix
from tools.plumb.deps.command import with_interrupt
from tools.plumb.deps.load import load
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history import declared, junit, page, report
from tools.plumb.history.events import Reading
from tools.plumb.history.ingest import Ingested, ingest
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Store
from tools.plumb.history.summary import Run, Summary, judged, runs_of, summaries
from tools.plumb.limits import finite
from tools.plumb.revision import Loader

_EPILOG = """
[bold]Exit codes[/bold]

0 answered. 2 wrong usage. 3 seconds: declared ones are far from the measured ones.
1 buildozer failed. 7 Bazel cannot load the workspace. 8 interrupted.
36 a file is missing or is not what it should be. 141 the reader of the answer went away.
"""
_DAY = 86_400_000
Open = Callable[[Path | None], Loader]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="FILE", help="The history; by default one in the user's cache folder."
    ),
]
Labels = Annotated[
    str, typer.Argument(metavar="LABELS", help="Tests, as a glob: '//testing/quant*'.")
]
DaysOption = Annotated[
    int | None, typer.Option("--days", min=1, metavar="N", help="Only runs of the last N days.")
]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace", metavar="DIR", help="A folder in the Bazel workspace; by default this one."
    ),
]


class Format(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the answer.")]


def register(
    app: typer.Typer, open_loader: Open, group: type[TyperGroup], command: type[TyperCommand]
) -> None:
    """Adds `history` to the command line.

    open_loader: finds a workspace from --workspace. group, command: how help is printed.
    """
    history = typer.Typer(
        cls=group,
        no_args_is_help=True,
        help="Remembers what ran: seconds, failures and flakes of each test.",
    )
    app.add_typer(history, name="history")
    _register_input(history, command)
    _register_answers(history, open_loader, command)


def _register_input(history: typer.Typer, command: type[TyperCommand]) -> None:
    @history.command("ingest", cls=command, epilog=_EPILOG)
    def ingest_command(
        files: Annotated[
            list[Path],
            typer.Argument(metavar="FILE", help="What Bazel wrote: --build_event_json_file=FILE."),
        ],
        store: StoreOption = None,
    ) -> None:
        """Takes in build event files. One that was taken in before changes nothing."""
        with_interrupt(lambda: _ingest(files, store))

    imports = typer.Typer(cls=history.info.cls, no_args_is_help=True)
    history.add_typer(imports, name="import", help="Takes in what others than Bazel wrote.")

    @imports.command("junit", cls=command, epilog=_EPILOG)
    def junit_command(
        files: Annotated[list[Path], typer.Argument(metavar="FILE", help="JUnit reports.")],
        pool: Annotated[str, typer.Option(help="Where the tests ran.")] = "cpu",
        store: StoreOption = None,
    ) -> None:
        """Takes in JUnit reports, an attempt for each test file in them."""
        with_interrupt(lambda: _import(files, pool, store))


def _register_answers(history: typer.Typer, open_loader: Open, command: type[TyperCommand]) -> None:
    @history.command("show", cls=command, epilog=_EPILOG)
    def show_command(
        labels: Labels = "*",
        days: DaysOption = None,
        output: FormatOption = Format.TEXT,
        html: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="Write one page with plots over time, too."),
        ] = None,
        store: StoreOption = None,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Runs, failures, flakes and seconds of each test."""

        def work() -> NoReturn:
            if html is not None and _is_same(html, _path(store)):
                raise PlumbError(f"{html} is the history itself: name another file for --html.")
            own = _runs(store, labels, days)
            if html is not None:
                _write_page(html, own.runs, open_loader, workspace)
            _print(list(summaries(own.runs)), own.served, output)

        with_interrupt(work)

    @history.command("flaky", cls=command, epilog=_EPILOG)
    def flaky_command(
        labels: Labels = "*",
        days: DaysOption = None,
        output: FormatOption = Format.TEXT,
        store: StoreOption = None,
    ) -> None:
        """Tests of which an attempt failed and a later one passed, the worst first."""

        def work() -> NoReturn:
            own = _runs(store, labels, days)
            found = [one for one in summaries(own.runs) if one.flaky]
            _print(sorted(found, key=lambda one: -one.flake_rate), own.served, output)

        with_interrupt(work)

    @history.command("seconds", cls=command, epilog=_EPILOG)
    def seconds_command(
        labels: Labels = "*",
        update: Annotated[
            bool, typer.Option("--update", metavar="", help="Edit the BUILD files with buildozer.")
        ] = False,
        threshold: Annotated[
            float,
            typer.Option(
                min=0, callback=finite, help="Share of the declared seconds that p90 may be off."
            ),
        ] = 0.25,
        slack: Annotated[
            float, typer.Option(min=0, callback=finite, help="Seconds that p90 may be off.")
        ] = 3.0,
        least_runs: Annotated[int, typer.Option(min=1, help="Passing runs that are needed.")] = 3,
        days: DaysOption = None,
        output: FormatOption = Format.TEXT,
        store: StoreOption = None,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Tests whose declared seconds are far from the measured p90."""
        limits = {"least_runs": least_runs, "threshold": threshold, "slack": slack}

        def work() -> NoReturn:
            own = list(summaries(_runs(store, labels, days).runs))
            _seconds(own, limits, open_loader(workspace), update, output)

        with_interrupt(work)


def _path(store: Path | None) -> Path:
    return store if store is not None else cache_root() / "history.sqlite"


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _ingest(files: list[Path], store: Path | None) -> NoReturn:
    with open_store(_path(store), create=True) as opened:
        for path in files:
            found, reading = ingest(path, opened)
            _say(_words(found, reading))
    raise typer.Exit(ExitCode.OK)


def _words(found: Ingested, reading: Reading) -> str:
    words = f"{found.path}: {_attempts(found.new)}, {found.known} known"
    if found.cached:
        words += f" ({found.cached} of them served from a cache)"
    if found.invocations > 1:
        words += f"; {found.invocations} invocations"
    if reading.count:
        lines = ", ".join(str(line) for line in reading.broken)
        more = ", …" if reading.count > len(reading.broken) else ""
        words += f"; passed over, torn, too long or of no possible run: line {lines}{more}"
    if not found.finished:
        words += "; it ends before the invocation does"
    return words


def _attempts(count: int) -> str:
    return f"{count} new attempt{'s' * (count != 1)}"


def _import(files: list[Path], pool: str, store: Path | None) -> NoReturn:
    with open_store(_path(store), create=True) as opened:
        for path in files:
            read = junit.read(path, pool)
            with opened.together():
                # A report without timestamps has its file's, which a copy has not.
                known = opened.knows(read.invocation.uuid)
                opened.add_invocation(read.invocation)
                new = 0 if known else sum(opened.add(attempt) for attempt in read.attempts)
            _say(f"{path}: {_attempts(new)}, {len(read.attempts) - new} known")
    raise typer.Exit(ExitCode.OK)


class _Own:
    """The runs that were asked for, sorted by label, and how often each test was cached.

    A run without a verdict, such as one that was cancelled, is left out.
    """

    def __init__(self, store: Store, labels: str, since_ms: int) -> None:
        # No label holds half a character, and SQLite takes none.
        labels = labels.encode(errors="replace").decode()
        self.runs: list[Run] = list(judged(runs_of(store, labels, since_ms)))
        self.served = store.served(labels, since_ms)


def _runs(store: Path | None, labels: str, days: int | None) -> _Own:
    path = _path(store)
    since = max(round(datetime.now(UTC).timestamp() * 1000) - days * _DAY, 0) if days else 0
    with open_store(path) as opened:
        own = _Own(opened, labels, since)
    if not own.runs:
        of_days = f" of the last {days} days" if days else ""
        raise PlumbError(
            f"{path} holds no run{of_days} of a test that matches '{labels}', or none that came to "
            "a verdict. Quote a glob so that the shell leaves it alone: '//testing/quant*'.",
            ExitCode.USAGE,
        )
    return own


def _print(found: list[Summary], served: dict[str, int], output: Format) -> NoReturn:
    console = streams.stdout_console()
    with streams.answering(console):
        if output is Format.JSON:
            typer.echo(report.as_json(found, served))
        elif found:
            console.print(report.table(found, served))
        else:
            typer.echo("No test was flaky.")
    raise typer.Exit(ExitCode.OK)


def _write_page(path: Path, found: list[Run], open_loader: Open, workspace: Path | None) -> None:
    tests = of_workspace(open_loader(workspace)).model.tests
    seconds = {label: test.seconds for label, test in tests.items()}
    streams.write_file(path, page.render(found, seconds, "Test history"))


def _seconds(
    found: list[Summary],
    limits: dict[str, float],
    loader: Loader,
    update: bool,
    output: Format,
) -> NoReturn:
    tests = of_workspace(loader).model.tests
    drifts = declared.drifts(
        tests,
        found,
        least_runs=int(limits["least_runs"]),
        threshold=limits["threshold"],
        slack=limits["slack"],
    )
    workspace = load(loader)
    every = calls.declared(workspace) if drifts else []
    sources = {call.build_file: workspace.text(call.build_file) for call in every if call.call}
    edits = declared.edits(drifts, tests, every, sources)
    console = streams.stdout_console()
    with streams.answering(console):
        if output is Format.JSON:
            typer.echo(report.drifts_as_json(edits))
        elif edits:
            console.print(report.drift_table(edits))
        else:
            typer.echo(_near(tests, found, int(limits["least_runs"])))
    lines = [edit.command for edit in edits if edit.command]
    if update and lines:
        fix.tell(loader.workspace, lines, fix.find_buildozer(loader.workspace, loader.notify))
        loader.notify(f"buildozer was told {len(lines)} edits")
    left = [edit for edit in edits if not (update and edit.command)]
    raise typer.Exit(ExitCode.TESTS_FAILED if left else ExitCode.OK)


def _near(tests: Mapping[str, Test], found: list[Summary], least_runs: int) -> str:
    """That nothing is far off, of how many tests."""
    known = [one for one in found if one.label in tests]
    judged = sum(one.seconds is not None and one.seconds.count >= least_runs for one in known)
    return (
        f"No declared time is far from the measured one, of {judged} tests with {least_runs} "
        f"passing runs or more; {len(known) - judged} have fewer (--least-runs)."
    )


def _say(text: str) -> None:
    typer.echo(f"plumb: {text}", err=True)
