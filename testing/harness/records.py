"""Figures of a test run, a JSON line each, in Bazel's undeclared outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path


def record(entry: dict[str, object]) -> None:
    """Append to stats.jsonl in TEST_UNDECLARED_OUTPUTS_DIR; nothing outside Bazel."""
    folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    if not folder:
        return
    entry = {"target": os.environ.get("TEST_TARGET", ""), **entry}
    with (Path(folder) / "stats.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")
