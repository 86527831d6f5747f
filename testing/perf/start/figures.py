"""What a test cost beside a bare python, from runs of both in turn."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One command of Bazel for one test.

    bare: seconds of the bare python just before it.
    command: of the whole command, from the shell's side.
    test: that Bazel reports for the test: its start, its import, pytest, its end.
    """

    bare: float
    command: float
    test: float


@dataclass(frozen=True)
class Figures:
    """What `runs` of one way of running say."""

    way: str
    goal: float
    runs: Sequence[Run]

    @property
    def ratio(self) -> float:
        """The whole command's seconds over the bare python's, median over the pairs."""
        return statistics.median(run.command / run.bare for run in self.runs)

    def row(self) -> str:
        """A row of the table under `heading`."""
        bare = statistics.median(run.bare for run in self.runs)
        command = statistics.median(run.command for run in self.runs)
        test = statistics.median(run.test for run in self.runs)
        least = min(run.command / run.bare for run in self.runs)
        verdict = "met" if self.ratio <= self.goal else "MISSED"
        return (
            f"| {self.way} | {bare:.2f} | {test:.2f} | {command:.2f} | {self.ratio:.2f} | "
            f"{least:.2f} | {self.goal:.1f}: {verdict} |"
        )


def heading() -> str:
    """The first two lines of the table."""
    heads = ["way", "bare python, s", "test, s", "bazel test, s", "ratio", "least", "goal"]
    return f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}"


def seconds_of_test(events: Iterable[str]) -> tuple[float, str]:
    """The seconds of the one test in Bazel's build events, and how it ran: `linux-sandbox`, say.

    Raises ValueError if they hold no test that ran and passed: a cached result is no measurement.
    """
    for line in events:
        event = json.loads(line)
        result = event.get("testResult")
        if result is None:
            continue
        how = result.get("executionInfo", {})
        cached = result.get("cachedLocally") or how.get("cachedRemotely")
        if result["status"] != "PASSED" or cached:
            raise ValueError(f"the test {'was cached' if cached else result['status']}")
        return int(result["testAttemptDurationMillis"]) / 1000, str(how.get("strategy"))
    raise ValueError("Bazel's events hold no test result")
