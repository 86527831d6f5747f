"""Draws the README's pictures from real answers: `tools/bazel run //docs:pictures -- BASE HEAD`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

_WIDTH = 116


def draw(
    command: str, output: str, picture: Path, title: str = "plumb affected", width: int = _WIDTH
) -> None:
    """Writes an SVG of a terminal that shows `command` and its coloured `output`."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(output))
    beside = picture.with_suffix(".new")
    beside.write_text(console.export_svg(title=title))
    beside.replace(picture)


def main(base: str, head: str) -> int:
    """Asks plumb what the change from `base` to `head` can break, and draws the answer."""
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    arguments = ["affected", "--base", base, "--head", head]
    done = subprocess.run(
        [sys.executable, "-m", "tools.plumb", *arguments],
        cwd=root,
        env={
            **os.environ,
            "COLUMNS": str(_WIDTH),
            "FORCE_COLOR": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    else:
        draw(f"plumb {' '.join(arguments)}", done.stdout, root / "docs/affected.svg")
    return done.returncode


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: tools/bazel run //docs:pictures -- BASE HEAD (two revisions)")
    sys.exit(main(*sys.argv[1:]))
