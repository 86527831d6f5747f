"""The matrix as plain data, which the JSON prints and the page embeds; docs/coverage.md has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tools.plumb.cells.model import Test
from tools.plumb.coverage.matrix import Entry, Matrix, Row, cost
from tools.plumb.coverage.sources import sources

# Raised when a field changes its meaning or goes away.
SCHEMA = 1


def content(
    matrix: Matrix,
    name: str,
    problems: Sequence[str],
    text: Callable[[str], str | None],
    missing: bool = False,
) -> dict[str, Any]:
    """The matrix as dicts and lists.

    name: what was read. text: a file's content by its path. missing: leave out claims and cells
    that are covered; the totals are of all.
    """
    near = [one.test for missing in matrix.missing for one in missing.near]
    tests = {test.label: test for test in (*matrix.tests, *near)}
    return {
        "schema": SCHEMA,
        "of": name,
        "totals": {
            "claims": len(matrix.rows),
            "cells": len(matrix.entries),
            "demanded": matrix.demanded,
            "missing": len(matrix.missing),
            **asdict(cost(matrix.tests)),
        },
        "claims": [_row(row) for row in (matrix.only_missing() if missing else matrix).rows],
        "tests": {label: _test(tests[label], text) for label in sorted(tests)},
        "problems": list(problems),
    }


def dump(matrix: dict[str, Any]) -> str:
    """The data as text."""
    return json.dumps(matrix, indent=2)


def _row(row: Row) -> dict[str, Any]:
    claim = row.claim
    return {
        "name": claim.name,
        "sentence": claim.sentence,
        "level": claim.level,
        "label": claim.label,
        "cost": asdict(row.cost),
        "alone": asdict(row.alone),
        "cells": [_entry(entry) for entry in row.entries],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    missing = entry.missing
    near = missing.near if missing else ()
    return {
        "arch": entry.cell.arch,
        "cadence": entry.cell.cadence,
        "demanded": entry.demanded,
        "covered": missing is None,
        "reason": str(missing.reason) if missing else None,
        "because": missing.sentence if missing else None,
        "tests": [test.label for test in entry.tests],
        "near": [
            {"test": one.test.label, "lacks": [str(lack) for lack in one.lacks]} for one in near
        ],
    }


def _test(test: Test, text: Callable[[str], str | None]) -> dict[str, Any]:
    return {
        "level": test.level,
        "pool": test.pool,
        "arch": test.arch,
        "gpus": test.gpus,
        "seconds": test.seconds,
        "gpu_seconds": test.gpu_seconds,
        "cadence": test.cadence,
        "suite": test.suite,
        "idle": test.idle,
        "skipped_on": dict(test.skipped_on),
        "covers": list(test.covers),
        "declared": test.place,
        "sources": [
            {
                "path": source.path,
                "tests": [{"line": n, "name": name} for n, name in source.functions],
            }
            for source in sources(test, text)
        ],
    }
