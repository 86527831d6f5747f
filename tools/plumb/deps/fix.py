"""Edits BUILD files as the findings say, with buildozer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.plumb.bazel import environment, find_entry
from tools.plumb.cache import Notify
from tools.plumb.deps.findings import Finding
from tools.plumb.errors import ExitCode, PlumbError

VARIABLE = "PLUMBLINE_BUILDOZER"
LABEL = "//tools/plumb/deps:buildozer"
# What buildozer returns where a file was changed, and where none had to be.
_FINE = (0, 3)


def commands(findings: Sequence[Finding]) -> list[str]:
    """Lines for buildozer's --commands file, one for each finding that can be mended so."""
    return [f"{f.command()}|{f.call}" for f in findings if f.fixable]


def apply(workspace: Path, findings: Sequence[Finding], buildozer: Path) -> None:
    """Edits the BUILD files of `workspace` as the findings say. Raises what `tell` does."""
    tell(workspace, commands(findings), buildozer)


def tell(workspace: Path, lines: Sequence[str], buildozer: Path) -> None:
    """Edits the BUILD files of `workspace`, which stay formatted; a line is COMMAND|TARGET.

    Raises PlumbError with buildozer's own words if it refuses.
    """
    done = subprocess.run(
        [str(buildozer), "-quiet", "-f", "-"],
        cwd=workspace,
        env=environment(),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in _FINE:
        raise PlumbError(
            f"buildozer ended with {done.returncode} and may have edited some BUILD files; "
            f"`git diff` shows them. It said: {done.stderr.strip()}",
            ExitCode.BUILD_FAILED,
        )


def find_buildozer(workspace: Path, notify: Notify) -> Path:
    """The buildozer to run: $PLUMBLINE_BUILDOZER, the workspace's own, or that on PATH.

    Raises PlumbError if there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise PlumbError(
                f"{VARIABLE} is '{named}', which is not a program; unset it or name a buildozer.",
                ExitCode.ENVIRONMENT,
            )
        return Path(named).absolute()
    if (workspace / "tools/plumb/deps/BUILD.bazel").is_file():
        return _built(workspace, notify)
    found = shutil.which("buildozer")
    if found is None:
        raise PlumbError(
            "there is no buildozer on PATH. Install it (npm install -g @bazel/buildozer), or "
            f"name one with {VARIABLE}; --dry-run prints what it would be told.",
            ExitCode.ENVIRONMENT,
        )
    return Path(found)


def _built(workspace: Path, notify: Notify) -> Path:
    notify("fetching buildozer with your workspace's Bazel")
    _bazel(workspace, "build", LABEL)
    printed = _bazel(workspace, "cquery", "--output=files", LABEL).split()
    base = Path(_bazel(workspace, "info", "execution_root").strip())
    for path in printed:
        for folder in (base, base.parent.parent, workspace):
            if (folder / path).is_file():
                return folder / path
    raise PlumbError(
        f"Bazel names no file for {LABEL}: .bazelrc has to set --{LABEL} to a buildozer.",
        ExitCode.ENVIRONMENT,
    )


def _bazel(workspace: Path, *arguments: str) -> str:
    entry = find_entry(workspace, workspace)
    done = subprocess.run(
        [str(entry), arguments[0], "--noshow_progress", "--ui_event_filters=-info", *arguments[1:]],
        cwd=workspace,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PlumbError(
            f"`{entry.name} {' '.join(arguments)}` failed with exit code {done.returncode}: "
            f"{done.stderr.strip()[-2000:]}",
            ExitCode.BUILD_FAILED,
        )
    return done.stdout
