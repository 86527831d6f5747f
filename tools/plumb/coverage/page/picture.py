"""Draws docs/coverage.png from a page that `plumb coverage --format html` wrote."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tools.browser.browser import started


def draw(page_file: Path, picture: Path) -> None:
    """Writes what a window of 1200 by 680 shows of the page, sorted by what is missing."""
    with tempfile.TemporaryDirectory() as scratch, started(Path(scratch)) as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 680}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.select_option("#sort", "missing")
        page.screenshot(path=picture)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(
            "usage: tools/bazel run //tools/plumb/coverage/page:picture -- PAGE.html PICTURE.png"
        )
    start = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    draw(start / sys.argv[1], start / sys.argv[2])
