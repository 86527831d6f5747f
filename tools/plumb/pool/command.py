"""`plumb pool …`: options in, a pool of workers on this machine out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from testing.harness import gpu_slot
from tools.plumb import streams
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import config as configs
from tools.plumb.pool import home as homes
from tools.plumb.pool import labels, lifecycle, preflight, report
from tools.plumb.pool.home import Home
from tools.plumb.revision import Loader

_EPILOG = """
[bold]Examples[/bold]

plumb pool up  [dim]# this machine's cores and GPUs, one a slot[/dim]

plumb pool run -- test --config=remote //testing/quant/...  [dim]# after a look at its workers[/dim]

plumb pool up --config pool.toml  [dim]# the file of plumb plan; docs/pool.md[/dim]

[bold]Exit codes[/bold]

0 done. 2 wrong usage: pool.toml, no pool is up, a pool without a worker. 7 Bazel cannot load the
workspace. 8 interrupted. 36 something that the pool needs is missing or did not start.
`run` ends with what Bazel ended with.
"""
Open = Callable[[Path | None], Loader]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace", metavar="DIR", help="A folder in the Bazel workspace; by default this one."
    ),
]


def register(
    app: typer.Typer,
    open_loader: Open,
    group: type[TyperGroup],
    command: type[TyperCommand],
) -> None:
    """Adds `pool` to the command line. open_loader: finds a workspace from --workspace."""
    pool = typer.Typer(
        cls=group,
        no_args_is_help=True,
        rich_markup_mode="rich",
        help="Runs a pool of remote workers on this machine.",
        epilog=_EPILOG,
    )
    app.add_typer(pool, name="pool")
    _add_up(pool, open_loader, command)
    _add_watching(pool, command)
    _add_keys(pool, command)
    preflight.register(pool, open_loader, command)


def _add_up(pool: typer.Typer, open_loader: Open, command: type[TyperCommand]) -> None:
    @pool.command("up", cls=command)
    def up(
        file: Annotated[
            Path | None,
            typer.Option(
                "--config", metavar="FILE", help="pool.toml; by default what this machine has."
            ),
        ] = None,
        client: Annotated[
            int,
            typer.Option(
                "--with-process",
                min=0,
                metavar="PID",
                help="End with that process, as of a CI job.",
            ),
        ] = 0,
        workspace: WorkspaceOption = None,
    ) -> None:
        """Starts the pool and returns when it takes tests; it is watched from then on."""

        def start() -> None:
            loader = open_loader(workspace)
            known = labels.declared(loader.workspace)
            if file is None:
                config = configs.of_machine(_cards(), known)
            else:
                config = configs.read(file, tuple(known))
            home = homes.default()
            lifecycle.up(home, config, loader.notify, client)
            _print_status(home)

        _interruptible(start)

    @pool.command("down", cls=command)
    def down() -> None:
        """Ends the pool: no process of it is left, and what it learnt is kept for the next one."""

        def end() -> None:
            ended = lifecycle.down(homes.default(), _notify)
            typer.echo("the pool is down" if ended else "no pool is up")

        _interruptible(end)


def _notify(text: str) -> None:
    typer.echo(f"plumb: {text}", err=True)


def _cards() -> dict[str, list[int]]:
    """Architecture to the numbers of the GPUs that CUDA_VISIBLE_DEVICES leaves us."""
    cards = gpu_slot.machine_gpus()
    return {
        arch: [int(card.index) for card in gpu_slot.candidates(cards, arch, os.environ)]
        for arch in {card.arch for card in cards}
    }


def _add_watching(pool: typer.Typer, command: type[TyperCommand]) -> None:
    @pool.command("status", cls=command)
    def status(
        output: Annotated[
            report.Format, typer.Option("--format", help="How to print it.")
        ] = report.Format.TEXT,
    ) -> None:
        """Shows the pool's parts, and what died and was started again."""
        _print_status(homes.default(), output)

    @pool.command("logs", cls=command)
    def logs(
        part: Annotated[
            str, typer.Argument(metavar="PART", help="As status names it, or supervisor.")
        ] = "supervisor",
        lines: Annotated[
            int, typer.Option("--lines", "-n", min=1, metavar="N", help="The last N lines.")
        ] = 40,
        follow: Annotated[
            bool, typer.Option("--follow", "-f", metavar="", help="Go on as it grows.")
        ] = False,
    ) -> None:
        """Prints what a part of the pool said."""
        _interruptible(lambda: _show_log(homes.default(), part, lines, follow))


def _print_status(home: Home, output: report.Format = report.Format.TEXT) -> None:
    state = home.live_state()
    if output is report.Format.JSON:
        typer.echo(report.as_json(state, home))
        return
    console = streams.stdout_console()
    with streams.answering(console):
        for line in report.lines(state, home):
            console.print(line, soft_wrap=True)


def _show_log(home: Home, part: str, lines: int, follow: bool) -> None:
    log = home.logs / f"{part}.log"
    if not log.is_file() or "/" in part:
        known = sorted(path.stem for path in home.logs.glob("*.log"))
        if not known:
            raise PlumbError(
                f"no pool has been up in {home.folder} yet: `plumb pool up` starts one."
            )
        raise PlumbError(f"no part '{part}' has said anything; there are {', '.join(known)}.")
    with log.open("rb") as stream:
        content = stream.read()
        tail = b"".join(content.splitlines(keepends=True)[-lines:])
        while True:
            sys.stdout.write(tail.decode(errors="replace"))
            sys.stdout.flush()
            if not follow:
                return
            time.sleep(0.3)
            tail = stream.read()


def _add_keys(pool: typer.Typer, command: type[TyperCommand]) -> None:
    @pool.command("keys", cls=command)
    def keys(
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="HOST", help="Names or addresses by which clients reach it."),
        ] = None,
        user: Annotated[
            str | None,
            typer.Option("--token-for", metavar="NAME", help="Write only a token, for NAME."),
        ] = None,
        audience: Annotated[
            str, typer.Option(metavar="TEXT", help="Whom a token is for, as in pool.toml.")
        ] = configs.AUDIENCE,
        days: Annotated[int, typer.Option(min=1, max=3650, metavar="N", help="How long.")] = 90,
    ) -> None:
        """Makes certificates and token keys, for a pool that others can reach."""
        home = homes.default()
        for line in lifecycle.make_keys(home, names or [], user, audience, days):
            typer.echo(line)


def _interruptible(work: Callable[[], None]) -> None:
    try:
        work()
    except KeyboardInterrupt as error:
        raise PlumbError("interrupted", ExitCode.INTERRUPTED) from error
