"""`plumb plan`: options in, which test runs where and when out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand

from tools.plumb import pools as placements
from tools.plumb import streams
from tools.plumb.cells.load import of_workspace
from tools.plumb.cells.model import Test
from tools.plumb.compare import affected
from tools.plumb.deps.command import with_interrupt
from tools.plumb.deps.findings import matches
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history.opening import open_store
from tools.plumb.history.summary import Summary, runs_of, summaries
from tools.plumb.limits import finite
from tools.plumb.pair import load_both
from tools.plumb.plan import balance, config, report
from tools.plumb.plan.choose import Chosen, choose
from tools.plumb.plan.job import Job, Pool
from tools.plumb.plan.plan import Plan, make
from tools.plumb.revision import Loader

_EPILOG = """
[bold]Examples[/bold]

plumb plan --pools pool.toml  [dim]# every per-commit test on these hosts[/dim]

plumb plan --affected main --pools pool.toml --format github  [dim]# a job matrix of shards[/dim]

plumb plan //testing/quant/... --pools pool.toml --finish-in 600  [dim]# how many hosts?[/dim]

[bold]pool.toml[/bold]

\\[\\[pool]] with name; hosts (1); slots, of each host, such as its GPUs (1); start_seconds, before
the first test of a slot (0); saved_seconds, that each further test of a slot takes less (0).

[bold]Exit codes[/bold]

0 answered. 2 wrong usage: no such test, a pool that pool.toml lacks or that is too small.
7 Bazel cannot load the workspace. 8 interrupted. 36 a file cannot be read.
141 the reader of the answer went away.
"""
Open = Callable[[Path | None], Loader]


class Format(StrEnum):
    """How the plan is printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@dataclass(frozen=True)
class Request:
    """What the user asks for."""

    targets: tuple[str, ...]
    base: str | None
    pools: Path | None
    only: tuple[str, ...]
    cadence: str
    finish_in: float | None
    history: Path | None
    output: Format
    every: bool


def register(app: typer.Typer, open_loader: Open, command: type[TyperCommand]) -> None:
    """Adds `plan` to the command line. open_loader: finds a workspace from --workspace."""

    @app.command("plan", cls=command, epilog=_EPILOG)
    def plan_command(
        targets: Annotated[
            list[str] | None,
            typer.Argument(metavar="TARGET", help="//p:t, //p:all or //p/...; by default all."),
        ] = None,
        base: Annotated[
            str | None,
            typer.Option(
                "--affected",
                metavar="REV",
                help="Only tests that the working tree affects, compared with this revision.",
            ),
        ] = None,
        pools: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="The hosts: pool.toml. Without it, this machine's cores and one GPU host.",
            ),
        ] = None,
        pool: Annotated[
            list[str] | None,
            typer.Option(metavar="POOL", help="Plan this pool only; may be repeated."),
        ] = None,
        cadence: Annotated[
            str, typer.Option(metavar="NAME", help="Tests of this cadence, or all.")
        ] = placements.PER_COMMIT,
        finish_in: Annotated[
            float | None,
            typer.Option(
                min=1,
                callback=finite,
                metavar="SECONDS",
                help="Use the fewest hosts that do it in time.",
            ),
        ] = None,
        history: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE",
                help="What ran (see `plumb history`): measured seconds go before declared ones, "
                "and tests that fail often run first.",
            ),
        ] = None,
        output: Annotated[Format, typer.Option("--format", help="How to print the plan.")] = (
            Format.TEXT
        ),
        every: Annotated[
            bool, typer.Option("--tests", metavar="", help="Print each executor's tests, too.")
        ] = False,
        workspace: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR", help="A folder in the Bazel workspace; by default this one."
            ),
        ] = None,
    ) -> None:
        """Spreads tests over hosts so that all is done early, and says how early it could be."""
        request = Request(
            tuple(targets or ()),
            base,
            pools,
            tuple(pool or ()),
            cadence,
            finish_in,
            history,
            output,
            every,
        )
        with_interrupt(lambda: _answer(request, open_loader(workspace)))


def _answer(request: Request, loader: Loader) -> NoReturn:
    hosts = None if request.pools is None else config.read(request.pools)
    loaded = of_workspace(loader)
    tests = _tests(request, loader, loaded.model.tests)
    chosen = choose(tests, _history(request.history))
    plans = [
        _plan(jobs, _pool_of(name, jobs, hosts, request.pools), request.finish_in)
        for name, jobs in chosen.jobs.items()
    ]
    matrix = partial(report.as_matrix, plans, {test.label: test for test in tests}, loaded.configs)
    _print(request, plans, chosen, matrix)
    raise typer.Exit(ExitCode.OK)


def _tests(request: Request, loader: Loader, every: Mapping[str, Test]) -> list[Test]:
    for pattern in request.targets:
        if not any(matches(label, [pattern]) for label in every):
            raise PlumbError(
                f"no test matches '{pattern}'; write //package:target, //package:all or "
                "//package/..."
            )
    known = {test.pool for test in every.values()}
    for pool in request.only:
        if pool not in known:
            raise PlumbError(
                f"no test runs in pool '{pool}'; the pools are {', '.join(sorted(known))}."
            )
    wanted = None if request.base is None else _affected(loader, request.base)
    found = [
        test
        for label, test in every.items()
        if test.runs
        and request.cadence in (test.cadence, placements.ALL)
        and (not request.targets or matches(label, request.targets))
        and (not request.only or test.pool in request.only)
        and (wanted is None or label in wanted)
    ]
    if not found and wanted is None:
        raise _nothing(request, every)
    return found


def _nothing(request: Request, every: Mapping[str, Test]) -> PlumbError:
    """Why no test is planned."""
    asked = [
        test
        for label, test in every.items()
        if (not request.targets or matches(label, request.targets))
        and (not request.only or test.pool in request.only)
    ]
    running = [test for test in asked if test.runs]
    if asked and not running:
        why = sorted({test.idle or f"it skips itself on {test.arch}" for test in asked})
        return PlumbError(f"none of the {len(asked)} tests asked for runs: {'; '.join(why)}.")
    cadences = ", ".join(sorted({test.cadence for test in running}))
    return PlumbError(
        f"no test of the cadence '{request.cadence}' among these runs; there are "
        f"{cadences + ', and' if cadences else 'none, but'} {placements.ALL}."
    )


def _affected(loader: Loader, base: str) -> set[str]:
    repository = loader.repository
    before = repository.tree_of(base)
    with repository.working_tree(loader.folder / "scratch") as tree:
        older, newer, no_base = load_both(loader, before, tree)
        found = affected.compare(older, newer, no_base, manual=False)
    for reason in found.everything:
        loader.notify(f"every test is affected: {reason}")
    return {test.label for test in found.tests}


def _history(path: Path | None) -> dict[str, Summary]:
    if path is None:
        return {}
    with open_store(path) as store:
        return {one.label: one for one in summaries(runs_of(store))}


def _pool_of(
    name: str, jobs: tuple[Job, ...], hosts: dict[str, Pool] | None, path: Path | None
) -> Pool:
    widest = max(job.width for job in jobs)
    if hosts is None:
        cores = len(os.sched_getaffinity(0))
        return Pool(name, 1, cores if name == placements.CPU else widest)
    if name not in hosts:
        raise PlumbError(
            f"{len(jobs)} of the tests run in pool '{name}', which {path} lacks: add [[pool]] with "
            f"that name, or choose others with --pool ({', '.join(sorted(hosts))})."
        )
    if widest > hosts[name].slots:
        job = max(jobs, key=lambda one: one.width)
        raise PlumbError(
            f"{job.label} takes {widest} GPUs of one host; the hosts of pool '{name}' have "
            f"{hosts[name].slots} slots in {path}."
        )
    return hosts[name]


def _plan(jobs: tuple[Job, ...], pool: Pool, finish_in: float | None) -> Plan:
    if finish_in is None:
        return make(jobs, pool)
    once = pool.start_seconds + pool.saved_seconds
    slowest = max(jobs, key=lambda job: job.seconds)
    if slowest.seconds + pool.start_seconds > finish_in:
        raise PlumbError(
            f"{slowest.label} alone takes {slowest.seconds + pool.start_seconds:g} s in pool "
            f"'{pool.name}', wanted {finish_in:g} s: allow more, or split it (shard_count)."
        )
    widest = max(job.width for job in jobs)
    costs = [pool.cost(job) for job in jobs]
    slots = balance.fewest(costs, max(finish_in - once, max(costs)))
    hosts = -(-slots // (pool.slots // widest))
    plan = make(jobs, replace(pool, hosts=hosts))
    while hosts > 1:
        fewer = make(jobs, replace(pool, hosts=hosts - 1))
        if fewer.finish > finish_in:
            break
        hosts, plan = hosts - 1, fewer
    while plan.finish > finish_in:
        hosts += 1
        plan = make(jobs, replace(pool, hosts=hosts))
    return plan


def _print(request: Request, plans: list[Plan], chosen: Chosen, matrix: Callable[[], str]) -> None:
    console = streams.stdout_console()
    with streams.answering(console):
        if request.output is Format.JSON:
            typer.echo(report.as_json(plans, chosen.guessed))
        elif request.output is Format.GITHUB:
            typer.echo(matrix())
        elif not plans:
            typer.echo("Nothing is affected: there is nothing to run.")
        else:
            for line in report.lines(plans, chosen.guessed, request.every):
                console.print(line, soft_wrap=True)
