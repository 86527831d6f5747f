"""Seconds of the tests of a large GPU CI: SGLang's, 613 pairs of file and suite.

The 90th percentile of live runs over seven days from 2026-06-24, as the project publishes it
(sgl-project/sglang-ci-stats, model.json at 006e1fc1).
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from tools.plumb.plan.job import Job

FILE = Path(__file__).parent / "sglang_p90.tsv"
_TIMEOUT = 1800
_SHARE = 0.75
"""Of a shard's time limit, that its tests may take: how that project chooses its shards."""


def suites() -> dict[str, list[Job]]:
    """Tests by suite; each runs alone on its runner, however many GPUs that has."""
    found: dict[str, list[Job]] = {}
    with FILE.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            found.setdefault(row["suite"], []).append(Job(row["file"], float(row["seconds"])))
    return found


def shards_of(jobs: list[Job]) -> int:
    """As many as the suite's work needs, each within three quarters of half an hour."""
    return max(1, math.ceil(sum(job.seconds for job in jobs) / (_SHARE * _TIMEOUT)))
