"""Suites of a large GPU CI as they are planned: SGLang's measured tests."""

from __future__ import annotations

import math

from tools.plumb.plan.job import Job
from tools.plumb.sglang_stats.stats import measured

_TIMEOUT = 1800
_SHARE = 0.75
"""Of a shard's time limit, that its tests may take: how that project chooses its shards."""


def suites() -> dict[str, list[Job]]:
    """Tests by suite; each runs alone on its runner, however many GPUs that has."""
    found: dict[str, list[Job]] = {}
    for row in measured():
        found.setdefault(row.suite, []).append(Job(row.path, float(row.seconds)))
    return found


def shards_of(jobs: list[Job]) -> int:
    """As many as the suite's work needs, each within three quarters of half an hour."""
    return max(1, math.ceil(sum(job.seconds for job in jobs) / (_SHARE * _TIMEOUT)))
