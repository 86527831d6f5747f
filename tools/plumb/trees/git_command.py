"""Runs git so that it changes nothing of the user's and obeys none of the user's hooks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.plumb import interrupt
from tools.plumb.errors import ExitCode, PlumbError

# A checkout of ours must not run the user's hooks, file monitor or sparse rules.
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "submodule.recurse=false",
    "advice.addEmbeddedRepo=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "gc.auto=0",
)
# Set by git for hooks: they would point our commands at the user's index.
_LOCAL_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


def run_git(
    folder: Path,
    *arguments: str,
    check: bool = True,
    environment: Mapping[str, str] | None = None,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """What git did in `folder`; given: its input.

    Raises PlumbError if there is no such folder or, with check, if git fails.
    """
    command, variables = _command(arguments, environment)
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            input=given,
            capture_output=True,
            check=False,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PlumbError(f"there is no folder {folder}.") from error
    if check and result.returncode != 0:
        asked = " ".join(arguments[:2])
        raise PlumbError(f"`git {asked}` failed: {last_line(result.stderr)}", ExitCode.ENVIRONMENT)
    return result


def start_git(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A git process in `folder` that answers on a pipe what it is asked on another."""
    command, variables = _command(arguments, environment)
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=folder, env=variables, stdin=pipe, stdout=pipe, stderr=nothing
    )


def _command(
    arguments: Sequence[str], environment: Mapping[str, str] | None
) -> tuple[list[str], dict[str, str]]:
    interrupt.check()
    options = [part for option in _OPTIONS for part in ("-c", option)]
    variables = {k: v for k, v in os.environ.items() if k not in _LOCAL_VARIABLES}
    variables |= {"LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    return ["git", *options, *arguments], variables | dict(environment or {})


def last_line(text: bytes) -> str:
    """The last line of what git said, where it names the trouble."""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "git said nothing"
