"""Figures of a test run, a JSON line each, in Bazel's undeclared outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path


def record(entry: dict[str, object], file_name: str = "stats.jsonl") -> None:
    """Append to that file in TEST_UNDECLARED_OUTPUTS_DIR; nothing outside Bazel."""
    folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    if not folder:
        return
    entry = {"target": os.environ.get("TEST_TARGET", ""), **entry}
    with (Path(folder) / file_name).open("a") as file:
        file.write(json.dumps(entry) + "\n")
