"""A Bazel for tests: this repository's own, with servers and caches in a folder of the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

_REPOSITORY = Path(__file__).resolve().parents[3]


@contextmanager
def own_bazel(otherwise: Path) -> Iterator[tuple[Path, Path]]:
    """(program, folder for caches). The servers that plumb starts with them end at the end.

    otherwise: a folder to keep both in where Bazel does not name one.
    """
    below = os.environ.get("TEST_TMPDIR")
    folder = Path(mkdtemp(dir=below)) if below else otherwise
    (folder / "caches").mkdir()
    # The entry finds its own Bazel in the user's cache, not in the one that plumb gets here.
    entry = os.environ.get("PLUMBLINE_BAZEL") or _REPOSITORY / "tools/bazel"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    own = f"--output_user_root='{folder}/servers'"
    program = folder / "bazel"
    program.write_text(f"#!/bin/sh\nXDG_CACHE_HOME='{cache}' exec '{entry}' {own} \"$@\"\n")
    program.chmod(0o755)
    try:
        yield program, folder / "caches"
    finally:
        for base in (folder / "caches").glob("plumbline/plumb/*/output_base"):
            subprocess.run(
                [program, f"--output_base={base}", "shutdown"],
                cwd=base.parent / "tree",
                capture_output=True,
                check=False,
            )
