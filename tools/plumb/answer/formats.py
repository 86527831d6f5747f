"""Writes a comparison for GitHub's job matrix, and for Bazel as target patterns."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from tools.plumb.answer.report import by_pool, totals
from tools.plumb.compare.affected import Affected
from tools.plumb.errors import PlumbError
from tools.plumb.pool_options import test_options
from tools.plumb.pools import PER_COMMIT


def as_github(
    tests: list[Affected], configs: Collection[str], named: Sequence[str] | None = None
) -> str:
    """One line of JSON for `fromJSON` in a job's `strategy.matrix`: a job for each pool and number
    of GPUs, with the options of `bazel test` and the labels of its tests, both parted by spaces.

    configs: what .bazelrc defines. named: configs that the user asks for instead of a pool's own.
    """
    jobs = []
    for pool, members in by_pool(tests).items():
        for gpus in sorted({test.placement.gpus for test in members}):
            job = [test for test in members if test.placement.gpus == gpus]
            labels = " ".join(test.label for test in job)
            rare = any(not test.placement.runs_at(PER_COMMIT) for test in job)
            options = " ".join(test_options(pool, gpus, configs, named, rare=rare))
            where = {"pool": pool, "gpus": gpus, "options": options}
            jobs.append({**where, **totals(job), "targets": labels})
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
