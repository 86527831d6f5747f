"""Prints `N passed, N failed` for the test targets in a file of Bazel's build events.

A test that could not be built has no summary and failed all the same.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PASSED = ("PASSED", "FLAKY")


def count(events: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many test targets passed, and how many failed or could not be built.

    A test of another pool is built and left out by its tags: it has no summary, and is not counted.
    """
    tests: set[str] = set()
    passed: set[str] = set()
    failed: set[str] = set()
    for event in events:
        kind, name = next(iter(event["id"].items()))
        label = name.get("label", "") if isinstance(name, dict) else ""
        if kind == "targetConfigured":
            if event.get("configured", {}).get("testSize"):
                tests.add(label)
            # Its deps do not load: nobody knows any more whether it is a test.
            if "aborted" in event:
                failed.add(label)
        elif kind == "targetCompleted":
            if label in tests and not event.get("completed", {}).get("success"):
                failed.add(label)
        elif kind == "testSummary":
            # An interrupted build has a summary without a status for what it did not come to.
            good = event.get("testSummary", {}).get("overallStatus") in PASSED
            (passed if good else failed).add(label)
    return len(passed), len(failed)


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text().splitlines()
    print("{} passed, {} failed".format(*count(map(json.loads, lines))))
