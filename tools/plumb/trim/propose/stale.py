"""Stale seconds: declared times that are far from measured ones."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.plumb.cells.model import Model, Test
from tools.plumb.errors import PlumbError
from tools.plumb.graph import canonical
from tools.plumb.history.opening import open_store
from tools.plumb.history.summary import runs_of, seconds
from tools.plumb.trim.propose.candidate import Candidate, Kind

# Twice or half, as a time limit of five times the declared seconds and a plan can bear less.
RATIO = 2.0
# Within this nobody's plan changes.
LEAST_SECONDS = 10
_SQLITE = b"SQLite format 3\0"
Measured = Mapping[str, Sequence[float]]


def read(path: Path) -> dict[str, list[float]]:
    """Measured seconds of each label: of a history's passing runs, or of JSON lines.

    A line is such as {"target": "//a:b", "seconds": 3.5}. Raises PlumbError naming one that is not.
    """
    try:
        if path.read_bytes()[: len(_SQLITE)] == _SQLITE:
            return _of_history(path)
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise PlumbError(f"cannot read measured seconds from {path}: {why}.") from error
    found: dict[str, list[float]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        if line.strip():
            label, taken = _entry(line, f"{path}, line {number}")
            found[label].append(taken)
    if not found:
        raise PlumbError(f"{path} holds no measurement: wanted a JSON object a line.")
    return dict(found)


def _of_history(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    with open_store(path) as store:
        for run in runs_of(store):
            if run.whole and run.status in ("PASSED", "FLAKY"):
                found[run.label].append(run.ms / 1000)
    return dict(found)


def _entry(line: str, place: str) -> tuple[str, float]:
    wanted = 'wanted {"target": "//a:b", "seconds": 3.5}'
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise PlumbError(f"{place} is no JSON ({error}): {wanted}.") from error
    label = entry.get("target") if isinstance(entry, dict) else None
    taken = entry.get("seconds") if isinstance(entry, dict) else None
    if not isinstance(label, str) or not _is_time(taken):
        raise PlumbError(f"{place} is {line.strip()[:80]}: {wanted}.")
    assert taken is not None
    return canonical(label), float(taken)


def _is_time(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf  # type: ignore[operator]


def candidates(model: Model, measured: Measured) -> list[Candidate]:
    """A candidate for each test whose declared seconds are stale, farthest first."""
    found = []
    for label, test in sorted(model.tests.items()):
        if label in measured and test.seconds is not None:
            seen = seconds(list(measured[label])).p90
            if _far(test.seconds, seen):
                found.append((abs(math.log(max(seen, 1) / test.seconds)), test, seen))
    found.sort(key=lambda item: (-item[0], item[1].label))
    return [_candidate(test, seen, len(measured[test.label])) for _, test, seen in found]


def _far(declared: int, seen: float) -> bool:
    ratio = max(declared, seen) / max(min(declared, seen), 1e-9)
    return ratio >= RATIO and abs(declared - seen) >= LEAST_SECONDS


def _candidate(test: Test, seen: float, runs: int) -> Candidate:
    difference = test.seconds - math.ceil(seen) if test.seconds is not None else 0
    return Candidate(
        Kind.STALE,
        f"{test.label} declares {test.seconds} s and takes {seen:.0f} s",
        (test.label,),
        evidence=(
            f"p90 of {runs} measured run{'s' if runs > 1 else ''}: {seen:.1f} s; "
            f"declare seconds = {math.ceil(seen)}",
            f"plans and savings count {abs(difference)} s too "
            + ("many" if difference > 0 else "few"),
        ),
    )
