"""Makes one table of the figures that layer tests recorded, for docs/gpu_results.md.

tools/bazel run //tools/results -- bazel-testlogs/testing/quant
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import xml.etree.ElementTree as ET
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COLUMNS = ("target", "format", "matmul", "device", "cases", "wrong", "gain error", "worst z", "s")


@dataclass(frozen=True)
class Row:
    """The cases that one target ran of one format on one backend.

    gain: the largest distance of a case's regression gain from 1. z: the largest of its z-scores.
    seconds: of the probes, summed over the cases.
    """

    target: str
    format: str
    backend: str
    device: str
    cases: int
    wrong: int
    gain: float
    z: float
    seconds: float


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Each line that a test below `folder` recorded in its undeclared outputs, zipped or not."""
    for path in sorted(folder.rglob("stats.jsonl")):
        yield from map(json.loads, path.read_text().splitlines())
    for path in sorted(folder.rglob("outputs.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith("stats.jsonl"):
                    yield from map(json.loads, archive.read(name).decode().splitlines())


def target_seconds(folder: Path) -> dict[str, float]:
    """Seconds of each test target below `folder`, pytest's start included, from its test.xml."""
    return {
        f"//{path.parent.parent.relative_to(folder)}:{path.parent.name}": sum(
            float(suite.get("time", 0)) for suite in ET.parse(path).getroot().iter("testsuite")
        )
        for path in sorted(folder.rglob("test.xml"))
    }


def table(found: Iterable[dict[str, Any]]) -> list[Row]:
    """One row for each target, format and matmul backend, in that order."""
    groups: dict[tuple[str, str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for entry in found:
        backends = entry["backends"]
        matmul = next((b for name, b in backends.items() if "quant" not in name), "torch")
        groups[entry["target"], entry["format"], matmul, entry["device"]].append(entry)
    return [_row(key, cases) for key, cases in sorted(groups.items())]


def _row(key: tuple[str, str, str, str], cases: list[dict[str, Any]]) -> Row:
    scores = [v for c in cases for k, v in c["statistics"].items() if k.startswith("z_")]
    gains = [abs(c["statistics"]["gain"] - 1) for c in cases if "gain" in c["statistics"]]
    wrong = sum(not case["ok"] for case in cases)
    seconds = sum(case["seconds"] for case in cases)
    gain, z = max(gains, default=0.0), max(map(abs, scores), default=0.0)
    return Row(*key, len(cases), wrong, gain, z, seconds)


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{' --- |' * len(_COLUMNS)}"]
    for row in rows:
        cells = (
            f"`{row.target}`", row.format, row.backend, row.device, str(row.cases),
            str(row.wrong), f"{row.gain:.1e}", f"{row.z:.1f}", f"{row.seconds:.1f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Prints the table; 1 if a case was wrong, 2 if nothing was recorded."""
    parser = argparse.ArgumentParser(prog="tools/bazel run //tools/results --", description=__doc__)
    parser.add_argument("folder", type=Path, help="bazel-testlogs, or a folder in it")
    folder = parser.parse_args(argv).folder
    folder = Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / folder
    rows = table(entries(folder))
    if not rows:
        print(
            f"results: no test below {folder} recorded figures: run a layer test", file=sys.stderr
        )
        return 2
    print(markdown(rows))
    for target, seconds in target_seconds(folder).items():
        print(f"{target}: {seconds:.1f} s in pytest", file=sys.stderr)
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
