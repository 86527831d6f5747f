"""Makes one table of the figures that layer tests recorded, for docs/gpu_results.md.

tools/bazel run //tools/results -- bazel-testlogs/testing/quant
"""

from __future__ import annotations

import argparse
import json
import math
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


_FIELDS = {"target", "format", "backends", "device", "seconds", "ok", "statistics"}


class ResultsError(Exception):
    """There is nothing to make a table of; the message says what to do."""


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
        yield from _parse(path, path.read_text())
    for path in sorted(folder.rglob("outputs.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith("stats.jsonl"):
                        yield from _parse(path, archive.read(name).decode())
        except zipfile.BadZipFile as error:
            raise ResultsError(f"{path}: {error}: run the test again") from error


def _parse(path: Path, text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise ResultsError(f"{place}: no JSON ({error}): run the test again") from error
        if not isinstance(entry, dict) or not entry.keys() >= _FIELDS:
            wanted = ", ".join(sorted(_FIELDS))
            raise ResultsError(f"{place}: wanted an object with {wanted}: run the test again")
        yield entry


def target_seconds(folder: Path) -> dict[str, float]:
    """Seconds of each test target below `folder`, pytest's start included, from its test.xml."""
    return {
        f"//{path.parent.parent.relative_to(folder)}:{path.parent.name}": sum(
            float(suite.get("time", 0)) for suite in ET.parse(path).getroot().iter("testsuite")
        )
        for path in sorted(folder.rglob("test.xml"))
        if path.stat().st_size
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
    gains = [c["statistics"]["gain"] - 1 for c in cases if "gain" in c["statistics"]]
    wrong = sum(not case["ok"] or _has_nan(case["statistics"].values()) for case in cases)
    seconds = sum(case["seconds"] for case in cases)
    return Row(*key, len(cases), wrong, _worst(gains), _worst(scores), seconds)


def _has_nan(values: Iterable[float]) -> bool:
    return any(math.isnan(value) for value in values)


def _worst(values: Sequence[float]) -> float:
    # max() forgets a NaN that is not the first.
    return math.inf if _has_nan(values) else max(map(abs, values), default=0.0)


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
    try:
        rows = table(entries(folder))
        if not rows:
            raise ResultsError(f"no test below {folder} recorded figures: run a layer test")
    except ResultsError as error:
        print(f"results: {error}", file=sys.stderr)
        return 2
    print(markdown(rows))
    for target, seconds in target_seconds(folder).items():
        print(f"{target}: {seconds:.1f} s in pytest", file=sys.stderr)
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
