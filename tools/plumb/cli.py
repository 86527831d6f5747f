"""The command line: reads the options, calls the modules, turns errors into sentences."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from tools.plumb import cache, interrupt, streams
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.revision import Loader
from tools.plumb.starlark import syntax
from tools.plumb.steering.inputs import WORKSPACE_FILES
from tools.plumb.trees.git import Repository

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


def _say(markup: str) -> None:
    try:
        _errors.print(markup)
    except OSError:
        # The answer and the exit code have to do without words.
        streams.give_up_stderr()


def _notify(text: str) -> None:
    _say(f"[dim]plumb: {escape(text)}[/dim]")


def _warn(text: str) -> None:
    _say(f"[bold yellow]plumb:[/bold yellow] {escape(text)}")


def _start(named: Path | None) -> Path:
    """The folder that the user means: `named`, where `bazel run` was called, or here.

    Raises PlumbError if this one was deleted.
    """
    try:
        return (named or Path(os.environ.get("BUILD_WORKING_DIRECTORY") or Path.cwd())).absolute()
    except FileNotFoundError as error:
        raise PlumbError(
            "the folder that you are in was deleted: change to one that is there.",
            ExitCode.ENVIRONMENT,
        ) from error


def _loader(workspace: Path | None) -> Loader:
    root = find_workspace(_start(workspace))
    return Loader(Repository.find(root), root, cache.folder_for(root), _notify)


def _loader_and_folder(workspace: Path | None) -> tuple[Loader, str]:
    loader = _loader(workspace)
    return loader, _inside(loader.workspace, _start(workspace))


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


def _add_affected() -> None:
    from tools.plumb import affected_command

    affected_command.register(
        app, _Command, _loader_and_folder, lambda: _errors.status("comparing target graphs")
    )


def _add_coverage() -> None:
    from tools.plumb.coverage import command

    command.register(
        app, _Command, _loader, lambda: _errors.status("reading the target graph"), _warn
    )


def _add_deps() -> None:
    from tools.plumb.deps import command

    command.register(app, _loader, _Group, _Command)


def _add_history() -> None:
    from tools.plumb.history import command

    command.register(app, _loader, _Group, _Command)


def _add_plan() -> None:
    from tools.plumb.plan import command

    command.register(app, _loader, _Command)


def _add_pool() -> None:
    from tools.plumb.pool import command

    command.register(app, _loader, _Group, _Command)


def _add_trim() -> None:
    from tools.plumb.trim import command

    command.register(app, _loader, _Group, _Command)


_COMMANDS = {
    "affected": _add_affected,
    "coverage": _add_coverage,
    "deps": _add_deps,
    "history": _add_history,
    "plan": _add_plan,
    "pool": _add_pool,
    "trim": _add_trim,
}


_added: set[str] = set()


def _add_commands(arguments: Sequence[str]) -> None:
    """Adds the command that the arguments name, or all: to import one takes a fifth of a second."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    for name in [named] if named in _COMMANDS else [*_COMMANDS]:
        if name not in _added:
            _added.add(name)
            _COMMANDS[name]()


def _go_where_the_user_is() -> None:
    # `bazel run` starts in the runfiles; a file's name is meant from where it was called.
    called_in = os.environ.get("BUILD_WORKING_DIRECTORY")
    if called_in and Path(called_in).is_dir():
        os.chdir(called_in)


def main() -> NoReturn:
    """Runs the command line; every foreseen error becomes a sentence on stderr."""
    interrupt.install()
    _go_where_the_user_is()
    # A graph is a million objects without cycles, which the collector would visit again and again.
    gc.disable()
    streams.open_missing()
    # A sum of a thousand texts is fine Starlark, and a thousand deep to whoever reads it.
    sys.setrecursionlimit(syntax.DEEPEST)
    try:
        _add_commands(sys.argv[1:])
        app(prog_name="plumb", standalone_mode=True)
    except PlumbError as error:
        _say(f"[bold red]plumb:[/bold red] {escape(str(error))}")
        sys.exit(error.code)
    except OSError as error:
        _say(f"[bold red]plumb:[/bold red] {escape(str(error))}")
        sys.exit(ExitCode.ENVIRONMENT)
    sys.exit(ExitCode.OK)
