"""Makes the README's table and picture of the smallest biases, from what the power tests recorded.

tools/bazel run //testing/strength:picture -- bazel-testlogs/testing/strength
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testing.strength.power import GOALS
from testing.strength.svg import Mark, draw

FILE = "strength.jsonl"
FAMILIES = {
    "gain": "whole output",
    "tile": "128x128 tile",
    "expert": "one expert",
    "row": "row (token)",
    "column": "column",
}
CRITERIA = {
    "lossless grid": "found",
    "named": "and named",
    "natural data": "on natural data",
    "allclose": "allclose(5e-2, 1e-1)",
    "cosine": "cosine .99",
    "calc_diff": "calc_diff",
}


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Each line that a test below `folder` recorded, zipped or not."""
    for path in sorted(folder.rglob(FILE)):
        yield from map(json.loads, path.read_text().splitlines())
    for path in sorted(folder.rglob("outputs.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(FILE):
                    yield from map(json.loads, archive.read(name).decode().splitlines())


def percent(found: dict[str, float | None], criterion: str) -> str:
    """`0.011`, `never`, or `rejects right code`; empty where it was not asked."""
    if criterion not in found:
        return ""
    gain = found[criterion]
    if gain is None:
        return "never"
    return f"{100 * gain:.2g}" if gain else "rejects right code"


def table(measured: list[dict[str, Any]]) -> str:
    """Percent, a row for each format and kind of place."""
    head = ["format", "place", *CRITERIA.values()]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for entry in measured:
        found = entry["smallest"]
        cells = [entry["format"], FAMILIES[entry["family"]]]
        cells += [percent(found, criterion) for criterion in CRITERIA]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def marks(measured: list[dict[str, Any]]) -> list[Mark]:
    """What the picture shows: the bias of the whole output, by format and criterion."""
    return [
        Mark(entry["format"], criterion, entry["smallest"][criterion])
        for entry in measured
        if entry["family"] == "gain"
        for criterion in ("lossless grid", "natural data", "allclose", "cosine", "calc_diff")
        if criterion in entry["smallest"]
    ]


def main(folder: Path) -> int:
    """Prints the table and writes smallest_bias.svg beside this file's source."""
    measured = [entry for entry in entries(folder) if "smallest" in entry]
    if not measured:
        print(f"nothing below {folder}: run //testing/strength/... first", file=sys.stderr)
        return 2
    order = list(FAMILIES)
    measured.sort(
        key=lambda e: (e["format"].startswith("moe"), e["format"], order.index(e["family"]))
    )
    print(table(measured))
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    picture = root / "testing/strength/smallest_bias.svg"
    picture.write_text(draw(marks(measured), 100 * GOALS["gain"]))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tools/bazel run //testing/strength:picture -- FOLDER (test logs)")
    asked = Path(sys.argv[1])
    sys.exit(main(Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / asked))
