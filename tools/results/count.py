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
    """How many test targets passed, and how many failed or could not be built."""
    wanted: set[str] = set()
    passed: set[str] = set()
    for event in events:
        label = event["id"].get("targetConfigured", {}).get("label")
        is_test = event.get("configured", {}).get("testSize")
        # Of a target whose deps do not load, nobody knows any more whether it is a test.
        if label and (is_test or "aborted" in event):
            wanted.add(label)
        if "testSummary" in event:
            label = event["id"]["testSummary"]["label"]
            wanted.add(label)
            if event["testSummary"]["overallStatus"] in PASSED:
                passed.add(label)
    return len(passed), len(wanted - passed)


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text().splitlines()
    print("{} passed, {} failed".format(*count(map(json.loads, lines))))
