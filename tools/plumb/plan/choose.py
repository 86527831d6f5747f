"""Which tests are planned, and what is expected of each: from the graph and the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.plumb.cells.model import Test
from tools.plumb.history.summary import Summary
from tools.plumb.plan.job import Job

_UNKNOWN_SECONDS = 60.0
"""Of a test that neither declares seconds nor ever ran: Bazel's time limit of a small one."""


@dataclass(frozen=True)
class Chosen:
    """Jobs by pool, and the labels of those whose seconds nobody knows."""

    jobs: Mapping[str, tuple[Job, ...]]
    guessed: tuple[str, ...]


def choose(tests: Iterable[Test], summaries: Mapping[str, Summary]) -> Chosen:
    """The measured p90, where the history has one, goes before the declared seconds.

    A failure rate is that of failed and flaky runs, with one failure in a hundred runs added to
    what was seen (so that a test that ran twice and failed once is not held for one in two).
    """
    jobs: dict[str, list[Job]] = {}
    guessed = []
    for test in sorted(tests, key=lambda test: test.label):
        known = summaries.get(test.label)
        seconds = known.seconds.p90 if known is not None and known.seconds else test.seconds
        if seconds is None:
            guessed.append(test.label)
        rate = (known.failed + known.flaky + 1) / (known.runs + 100) if known else 0.0
        job = Job(
            test.label,
            float(_UNKNOWN_SECONDS if seconds is None else seconds),
            max(test.gpus, 1),
            rate if known and known.failed + known.flaky else 0.0,
        )
        jobs.setdefault(test.pool, []).append(job)
    return Chosen({pool: tuple(own) for pool, own in sorted(jobs.items())}, tuple(guessed))
