"""`plumb pool check` and `plumb pool run`: is there a worker for each test, and then Bazel."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from tools.plumb import bazel, interrupt
from tools.plumb.cells.load import of_workspace
from tools.plumb.cells.model import Test
from tools.plumb.deps.findings import matches
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.options import rc
from tools.plumb.pool import asked as command_line
from tools.plumb.pool import flags, report
from tools.plumb.pool import home as homes
from tools.plumb.pool.asked import Asked
from tools.plumb.pool.config import Server
from tools.plumb.pool.home import Home
from tools.plumb.pool.tunnel import tunnel
from tools.plumb.revision import Loader

Open = Callable[[Path | None], Loader]


@dataclass
class Missing:
    """Tests that no worker takes: pool to labels; and those with too few GPUs a slot."""

    pools: dict[str, list[str]] = field(default_factory=dict)
    wide: list[Test] = field(default_factory=list)


def chosen(
    tests: Mapping[str, Test], asked: Asked, filters: str, tags: Mapping[str, tuple[str, ...]]
) -> list[Test]:
    """The tests that a command line means: of its targets, that its tag filters leave."""
    wanted = [one for one in asked.targets if not one.startswith("-")]
    unwanted = [one[1:] for one in asked.targets if one.startswith("-")]
    return [
        test
        for label, test in tests.items()
        if test.runs
        and (not wanted or matches(label, wanted))
        and not (unwanted and matches(label, unwanted))
        and _passes(tags.get(label, ()), filters)
    ]


def _passes(tags: Sequence[str], filters: str) -> bool:
    words = [word.strip() for word in filters.split(",") if word.strip()]
    refused = {word[1:] for word in words if word.startswith("-")}
    required = {word.removeprefix("+") for word in words if not word.startswith("-")}
    return not refused & {*tags} and (not required or bool(required & {*tags}))


def missing(tests: Sequence[Test], workers: Sequence[Mapping[str, Any]]) -> Missing:
    """The tests for which none of `workers`, parts of a pool's state, is up."""
    up = {one["pool"] for one in workers if one["pool"] and one["state"] == "up"}
    found = Missing()
    for test in tests:
        if test.pool not in up:
            found.pools.setdefault(test.pool, []).append(test.label)
        elif test.gpus > 1:
            found.wide.append(test)
    return found


def require(found: Missing, state: Mapping[str, Any]) -> None:
    """Raises PlumbError naming each pool that lacks a worker, with a test of it.

    Before that, where the pool ends or one of its own parts is not up, so that no test could run.
    """
    if state["state"] != "up":
        raise PlumbError(f"the pool is {state['state']}: `plumb pool up` starts one.")
    down = [_trouble(one) for one in state["parts"] if not one["pool"] and one["state"] != "up"]
    if down:
        raise PlumbError("\n  ".join(down), ExitCode.ENVIRONMENT)
    lines = []
    for pool, labels in sorted(found.pools.items()):
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        lines.append(f"pool '{pool}' has no worker that is up, and {labels[0]}{more} would wait")
    for test in found.wide:
        lines.append(
            f"{test.label} takes {test.gpus} GPUs, and a slot has one: run it with "
            f"--config={test.pool}x{test.gpus} on the host itself"
        )
    if lines:
        have = sorted({one["pool"] for one in state["parts"] if one["pool"]})
        raise PlumbError(
            "\n  ".join([*lines, f"the pools that are up: {', '.join(have) or 'none'}"])
            + "\nAdd [[pool]] entries to pool.toml and start it again, or leave these tests out: "
            "--test_tag_filters=-gpu for all of GPUs."
        )


def _trouble(part: Mapping[str, Any]) -> str:
    name, state = part["name"], part["state"]
    if state == "held":
        return f"{name} {part['last_end']}."
    ended = f" again, as it {part['last_end']}" if part["last_end"] else ""
    what = "waits to be started" if state == "waiting" else "is starting"
    return (
        f"{name} {what}{ended}: go on when `plumb pool status` no longer names it; "
        f"`plumb pool logs {name}` has its words."
    )


def register(pool: typer.Typer, open_loader: Open, command: type[TyperCommand]) -> None:
    """Adds `check` and `run` to `plumb pool`."""
    options: Any = {"allow_extra_args": True, "ignore_unknown_options": True}

    @pool.command("check", cls=command)
    def check(
        targets: Annotated[
            list[str] | None,
            typer.Argument(metavar="TARGET", help="//p:t, //p:all or //p/...; by default all."),
        ] = None,
        filters: Annotated[
            str, typer.Option("--test_tag_filters", metavar="TAGS", help="As Bazel takes them.")
        ] = "",
    ) -> None:
        """Says which of these tests would wait for a worker in vain."""
        loader = open_loader(None)
        asked = Asked(command="test", targets=tuple(targets or ()))
        _check(loader, asked, filters, homes.default())
        typer.echo("a worker is up for each of these tests")

    @pool.command("run", cls=command, context_settings=options)
    def run(
        context: typer.Context,
        words: Annotated[
            list[str], typer.Argument(metavar="-- COMMAND …", help="What Bazel should do.")
        ],
    ) -> None:
        """Runs Bazel against the pool, after a look whether each test has a worker."""
        loader = open_loader(None)
        place = loader.workspace
        asked = command_line.parse(
            [*words, *context.args], lambda: flags.of_bazel(bazel.find_entry(place, place), place)
        )
        _run(loader, asked, homes.default())


def _check(loader: Loader, asked: Asked, filters: str, home: Home) -> Mapping[str, Any]:
    state = home.live_state()
    loaded = of_workspace(loader)
    tags = {label: target.tags for label, target in loaded.graph.targets.items()}
    here = [_absolute(target) for target in asked.targets]
    tests = chosen(loaded.model.tests, replace(asked, targets=tuple(here)), filters, tags)
    require(missing(tests, state["parts"]), state)
    return state


def _absolute(target: str) -> str:
    sign, name = ("-", target[1:]) if target.startswith("-") else ("", target)
    return sign + (name if name.startswith(("//", "@")) else f"//{name}")


def _run(loader: Loader, asked: Asked, home: Home) -> NoReturn:
    state = _check(loader, asked, _filters(loader, asked), home)
    server = Server(**state["server"])
    own = [] if any(one.startswith("remote") for one in asked.configs) else ["--config=remote"]
    entry = bazel.Place(loader.workspace, loader.workspace).bazel()
    with _way_to(server, home) as address, _secret_options(server, home) as startup:
        own.append(f"--remote_executor={address}")
        words = [*asked.startup, *startup, asked.command, *own, *asked.words]
        code = _bazel(entry.command(*words), loader.workspace)
    raise typer.Exit(code)


@contextmanager
def _way_to(server: Server, home: Home) -> Iterator[str]:
    """What Bazel is given as its executor; a tunnel of ours where the pool asks for TLS."""
    if server.security == "none":
        yield report.address(server)
        return
    client = (home.keys / "client.crt", home.keys / "client.key")
    authority = home.keys / "authority.crt"
    host, port = server.reached_at, server.port
    with tunnel(host, port, authority, client if server.security == "tls" else None) as way:
        yield f"grpc://127.0.0.1:{way.port}"
        if way.trouble:
            said = f"plumb: the pool was not reached: {way.trouble}."
            if "certificate" in way.trouble:
                said += " `plumb pool keys HOST`, then `plumb pool down` and `up`, renew its keys."
            typer.echo(said, err=True)


@contextmanager
def _secret_options(server: Server, home: Home) -> Iterator[list[str]]:
    """Start-up options that give Bazel its token, in a file: all users can read a command line."""
    if server.security != "jwt":
        yield []
        return
    with tempfile.NamedTemporaryFile("w", prefix="plumb-pool-", suffix=".bazelrc") as file:
        file.write(f'build --remote_header="authorization={_token(home)}"\n')
        file.flush()
        yield [f"--bazelrc={file.name}"]


def _bazel(command: Sequence[str], workspace: Path) -> int:
    try:
        process = subprocess.Popen(command, cwd=workspace, env=bazel.environment())
    except OSError as error:
        raise PlumbError(
            f"cannot run {command[0]}: {error.strerror}.", ExitCode.ENVIRONMENT
        ) from error
    return interrupt.wait(process)


def _filters(loader: Loader, asked: Asked) -> str:
    """The tag filters that `bazel test` gets from the workspace's .bazelrc and the command line."""
    with loader.repository.working_tree(loader.folder / "scratch") as tree:
        files = loader.load(tree).files
    return command_line.filters_of(rc.read(files)[0], asked)


def _token(home: Home) -> str:
    named = os.environ.get("PLUMBLINE_POOL_TOKEN", "")
    files = [Path(named)] if named else sorted(home.keys.glob("*.token"))
    if not files:
        raise PlumbError(
            f"no token in {home.keys}: `plumb pool keys --token-for NAME` makes one; another "
            "file is named by PLUMBLINE_POOL_TOKEN."
        )
    try:
        return files[0].read_text(encoding="ascii").strip()
    except OSError as error:
        raise PlumbError(
            f"cannot read {files[0]}: {error.strerror}.", ExitCode.ENVIRONMENT
        ) from error
