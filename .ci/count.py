"""Prints `N passed, N failed` for the test targets in a file of Bazel's build events."""

import json
import sys
from pathlib import Path

PASSED = ("PASSED", "FLAKY")

states = [
    event["testSummary"]["overallStatus"]
    for event in map(json.loads, Path(sys.argv[1]).read_text().splitlines())
    if "testSummary" in event
]
passed = sum(state in PASSED for state in states)
print(f"{passed} passed, {len(states) - passed} failed")
