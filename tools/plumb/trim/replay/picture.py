"""Draws the README's picture of a trim: `tools/bazel run //tools/plumb/trim/replay:picture`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docs.pictures import draw
from tools.plumb.trim.replay.plan import options

_WIDTH = 150


def command() -> str:
    """The command as one would type it, an option a line."""
    words = options()
    pairs = [" ".join(words[place : place + 2]) for place in range(0, len(words), 2)]
    return " \\\n    ".join(["plumb trim", *pairs])


def main() -> int:
    """Asks plumb in the replayed workspace, and draws its answer into docs/trim.svg."""
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    done = subprocess.run(
        [sys.executable, "-m", "tools.plumb", "trim", *options()],
        # Not the one among the runfiles, which is in no git repository.
        cwd=root / "tools/plumb/trim/replay/h100",
        env={
            **{k: v for k, v in os.environ.items() if k != "BUILD_WORKING_DIRECTORY"},
            "PLUMBLINE_BAZEL": str((root / "tools/bazel").absolute()),
            "COLUMNS": str(_WIDTH),
            "FORCE_COLOR": "1",
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    # 3: it loses what nobody accepted, which is what the picture shows.
    if done.returncode != 3:
        print(done.stderr, file=sys.stderr)
        return done.returncode or 1
    draw(command(), done.stdout, root / "docs/trim.svg", title="plumb trim", width=_WIDTH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
