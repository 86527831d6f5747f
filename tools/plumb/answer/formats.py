"""Writes a comparison for GitHub's job matrix, and for Bazel as target patterns."""

from __future__ import annotations

import json

from tools.plumb.answer.report import by_pool, totals
from tools.plumb.compare.affected import Affected
from tools.plumb.errors import PlumbError


def as_github(tests: list[Affected]) -> str:
    """One line of JSON for `fromJSON` in a job's `strategy.matrix`: a job for each pool and number
    of GPUs, with the labels of its tests, parted by spaces.
    """
    jobs = []
    for pool, members in by_pool(tests).items():
        for gpus in sorted({test.placement.gpus for test in members}):
            job = [test for test in members if test.placement.gpus == gpus]
            labels = " ".join(test.label for test in job)
            jobs.append({"pool": pool, "gpus": gpus, **totals(job), "targets": labels})
    return json.dumps({"include": jobs})


def as_patterns(tests: list[Affected]) -> str:
    """The labels for Bazel's --target_pattern_file, one a line.

    Raises PlumbError for a label that such a file cannot hold.
    """
    labels = [test.label for members in by_pool(tests).values() for test in members]
    for label in labels:
        if "#" in label:
            raise PlumbError(
                f"{label} cannot stand in a file of target patterns, where # starts a comment. "
                "Take --format json, or rename the target."
            )
    return "".join(f"{label}\n" for label in labels)
