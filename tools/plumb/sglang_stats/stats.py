"""Seconds of the tests of a large GPU CI: SGLang's, 613 pairs of file and suite.

The 90th percentile of live runs over seven days from 2026-06-24, as the project publishes it
(sgl-project/sglang-ci-stats, model.json at 006e1fc1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "p90_seconds.jsonl"


@dataclass(frozen=True)
class Measured:
    """A file in a suite.

    path: below test/registered. backend: 'cuda' or 'cpu'. seconds: whole ones; 0 of two CPU tests.
    """

    path: str
    backend: str
    suite: str
    seconds: int


def measured() -> list[Measured]:
    """All pairs, sorted by path."""
    return [Measured(**json.loads(line)) for line in DATA.read_text(encoding="utf-8").splitlines()]
