"""`plumb affected`: options in, the answer out, and perhaps a run of the tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tools.plumb import pools, run, streams
from tools.plumb.answer import formats, report
from tools.plumb.answer.explain import explain
from tools.plumb.bazel import Place
from tools.plumb.compare import affected
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pair import load_both
from tools.plumb.precise.narrow import Side, narrow
from tools.plumb.revision import Loader, Revision

EPILOG = """
[bold]Examples[/bold]

plumb affected --base HEAD~1  [dim]# what my last commit and my uncommitted edits can break[/dim]

plumb affected --base main --run  [dim]# run it, as far as this machine can[/dim]

plumb affected --base main --merge-base --head topic --format json  [dim]# for a program[/dim]

plumb affected --base main --pool h100 --format bazel > tests.txt

plumb affected --base main --why //testing/quant/int8:channel_linear_test_cpu

[bold]Exit codes[/bold]

0 answered; with --run: nothing affected, or all that ran passed.
1 with --run: a build or an analysis failed. 2 wrong usage: unknown option, revision or target.
3 with --run: tests failed. 7 Bazel cannot load the head. 8 interrupted.
9 with --strict: a changed file that no target lists and no rule of the policy names.
36 the machine lacks something: git, Bazel, a writable cache.
141 the reader of the answer, such as head, went away.
"""


class Format(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    BAZEL = "bazel"


@dataclass(frozen=True)
class Request:
    """What the user asks for; folder: where the user is, from the workspace's root."""

    base: str
    head: str | None
    merge_base: bool
    run: bool
    why: str | None
    output: Format
    manual: bool
    pools: tuple[str, ...]
    configs: tuple[str, ...] | None
    strict: bool
    folder: str
    cadence: str | None = None
    precise: bool = False


Open = Callable[[Path | None], tuple[Loader, str]]
Waiting = Callable[[], AbstractContextManager[object]]


def register(app: typer.Typer, cls: type, open_loader: Open, waiting: Waiting) -> None:
    """Adds `affected` to the command line.

    open_loader: finds a workspace from --workspace, and where in it the user is.
    waiting: makes a context that shows that something is going on.
    """

    @app.command("affected", cls=cls, epilog=EPILOG)
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
        merge_base: Annotated[
            bool,
            typer.Option(
                "--merge-base",
                metavar="",
                help="Compare with where the head left --base, not with what came there since.",
            ),
        ] = False,
        run_tests: Annotated[
            bool,
            typer.Option("--run", metavar="", help="Run the affected tests that this machine can."),
        ] = False,
        why: Annotated[
            str | None,
            typer.Option(metavar="TARGET", help="Say why TARGET is affected, or is not."),
        ] = None,
        output: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
            Format.TEXT
        ),
        manual: Annotated[
            bool, typer.Option("--manual", metavar="", help="Count tests tagged manual as well.")
        ] = False,
        pool: Annotated[
            list[str] | None,
            typer.Option(metavar="POOL", help="Count tests of this pool only; may be repeated."),
        ] = None,
        config: Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME",
                help="Compare (and run) under this --config of .bazelrc instead of the one called "
                "like a test's pool; may be repeated.",
            ),
        ] = None,
        strict: Annotated[
            bool,
            typer.Option(
                "--strict", metavar="", help="Fail if the policy names no rule for a changed file."
            ),
        ] = False,
        cadence: Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="--run and the formats github and bazel take tests of this cadence alone, "
                "such as nightly, or all. Without it --run takes per-commit, the formats all.",
            ),
        ] = None,
        precise: Annotated[
            bool,
            typer.Option(
                "--precise",
                metavar="",
                help="Build what affected tests read, at both revisions, and leave out those for "
                "which it is the same.",
            ),
        ] = False,
        workspace: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR", help="A folder in the Bazel workspace; by default this one."
            ),
        ] = None,
    ) -> None:
        """Finds the tests that a change can break, prints them by pool, and can run them.

        Your checkout, git index and Bazel server are left alone: graphs are read in a private
        checkout under ~/.cache/plumbline. Only --run uses your workspace and server, as you would.
        """
        try:
            loader, folder = open_loader(workspace)
            configs = tuple(config) if config else None
            request = Request(
                base,
                head,
                merge_base,
                run_tests,
                why,
                output,
                manual,
                tuple(pool or ()),
                configs,
                strict,
                folder,
                cadence,
                precise,
            )
            _answer(request, loader, waiting)
        except KeyboardInterrupt as error:
            raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error


def _answer(request: Request, loader: Loader, waiting: Waiting) -> NoReturn:
    repository, base = loader.repository, request.base
    with ExitStack() as stack:
        if request.merge_base:
            base = repository.merge_base(base, request.head or "HEAD")
        base_tree = repository.tree_of(base)
        if request.head is None:
            # Git is at work there for as long as it takes to read what is known of the base.
            with loader.reading_ahead(base_tree):
                head_tree = stack.enter_context(repository.working_tree(loader.folder / "scratch"))
        else:
            head_tree = repository.tree_of(request.head)
        with waiting():
            # A revision beside itself has nothing to answer: it is read for later questions.
            only_read = request.head is not None and base_tree.id == head_tree.id
            older, newer, no_base = load_both(loader, base_tree, head_tree, defaults=only_read)
        _check_pools(request.pools, newer)
        _check_cadence(request.cadence, newer)
        _check_configs(request.configs, older, newer)
        comparison = affected.compare(
            older,
            newer,
            no_base,
            manual=request.manual,
            only=request.pools,
            configs=request.configs,
        )
        if request.precise and older is not None and not comparison.everything:
            comparison = narrow(
                comparison,
                Side(older, partial(loader.exported, base_tree), "at the base", request.configs),
                Side(newer, partial(loader.exported, head_tree), "at the head", request.configs),
                loader.notify,
            )
        reason = None
        if request.why is not None:
            reason = explain(comparison, request.why, newer.graph.targets, request.folder)
    answer = report.Answer(base_tree, head_tree, comparison, reason)
    if not request.run:
        _finish(request, answer, None, newer, loader)
    if request.head is None or not (comparison.tests or comparison.access.users):
        _finish(request, answer, Place(loader.workspace, loader.workspace), newer, loader)
    with loader.exported(head_tree) as place:
        _finish(request, answer, place, newer, loader)


def _check_pools(wanted: tuple[str, ...], head: Revision) -> None:
    if not wanted:
        return
    places = map(head.placement_of, head.graph.test_labels)
    known = sorted({place.pool for place in places} | {pools.CPU})
    for pool in wanted:
        if pool not in known:
            raise PlumbError(f"no test runs in pool '{pool}'; the pools are {', '.join(known)}.")


def _check_cadence(wanted: str | None, head: Revision) -> None:
    if wanted is None:
        return
    places = map(head.placement_of, head.graph.test_labels)
    named = {place.cadence or pools.PER_COMMIT for place in places}
    known = sorted({*named, pools.PER_COMMIT, pools.ALL})
    if wanted not in known:
        raise PlumbError(f"no test has the cadence '{wanted}'; there are {', '.join(known)}.")


def _check_configs(wanted: tuple[str, ...] | None, base: Revision | None, head: Revision) -> None:
    if wanted is None:
        return
    lines = [*(base.steering.options if base is not None else ()), *head.steering.options]
    # A pool whose name no .bazelrc has runs without options of its own.
    known = {line.config for line in lines} - {""} | {pools.CPU}
    known |= {head.placement_of(label).pool for label in head.graph.test_labels}
    for name in wanted:
        if name not in known:
            raise PlumbError(
                f"no .bazelrc of these revisions defines --config={name}, and no pool has the "
                f"name; there are {', '.join(sorted(known))}."
            )


def _finish(
    request: Request, answer: report.Answer, place: Place | None, head: Revision, loader: Loader
) -> NoReturn:
    """Prints the answer, runs the tests in `place` unless it is None, and ends the command."""
    console = streams.stdout_console()
    text = request.output is Format.TEXT
    with streams.answering(console):
        if text and answer.why is not None:
            report.print_why(console, answer.why)
        elif text:
            report.print_text(console, answer)
    unmapped = [d.path for d in answer.comparison.unowned if not d.mapped]
    if request.strict and unmapped:
        _print(request, answer, head)
        raise PlumbError(
            f"no target lists {' or '.join(unmapped[:3])}"
            + (f" or {len(unmapped) - 3} more" if len(unmapped) > 3 else "")
            + ", and no rule of the policy names it.",
            ExitCode.UNMAPPED,
        )
    outcome = None
    if place is not None:
        configs = head.steering.configs
        outcome = run.run(
            answer.comparison,
            pools.local_gpus(),
            place,
            configs,
            loader.notify,
            request.configs,
            request.cadence or pools.PER_COMMIT,
        )
    ran = None if outcome is None else outcome.fields()
    with streams.answering(console):
        if text and ran is not None:
            report.print_outcome(console, ran)
    _print(request, replace(answer, run=ran), head)
    raise typer.Exit(ExitCode.OK if outcome is None else outcome.code)


def _print(request: Request, answer: report.Answer, head: Revision) -> None:
    """Prints the answer for a program; one for people stands already."""
    cadence = request.cadence or pools.ALL
    wanted = [t for t in answer.comparison.tests if t.placement.runs_at(cadence)]
    with streams.answering(streams.stdout_console()):
        if request.output is Format.JSON:
            typer.echo(report.as_json(answer))
        elif request.output is Format.GITHUB:
            typer.echo(formats.as_github(wanted, head.steering.configs, request.configs))
        elif request.output is Format.BAZEL:
            typer.echo(formats.as_patterns(wanted), nl=False)
