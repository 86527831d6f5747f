"""A copy of git's index that shows the working tree as it is, for plumb's own use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

# Runs git with the private index.
Run = Callable[..., subprocess.CompletedProcess[bytes]]


def copy(index: Path, target: Path, run: Run) -> None:
    """Copies the user's `index`, which may be missing, to `target`, the one that `run` uses."""
    if index.is_file():
        shutil.copyfile(index, target)
        shutil.copystat(index, target)
        # A split index names a file beside itself, which the copy lacks.
        listed = run("ls-files", "--error-unmatch", "--", ":/", check=False)
        if listed.returncode in (0, 1):
            return
        target.unlink()
    run("read-tree", "HEAD", check=False)


def see_every_file(workspace: Path, run: Run) -> None:
    """Takes the marks off the private index that would hide edits of files that are here.

    A path of a sparse checkout that is not on disk keeps its mark: it is not deleted.
    """
    listing = run("ls-files", "-v", "-z").stdout
    marked = [
        line[2:]
        for line in listing.split(b"\0")
        if line[:1] == b"S" or line[:1].islower()
        if os.path.lexists(os.path.join(os.fsencode(workspace), line[2:]))  # noqa: PTH118
    ]
    if marked:
        paths = b"".join(path + b"\0" for path in marked)
        for mark in ("--no-skip-worktree", "--no-assume-unchanged"):
            run("update-index", mark, "-z", "--stdin", given=paths)
