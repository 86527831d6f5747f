"""What tests left in Bazel's undeclared outputs: a JSON object a line, of several kinds."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]

FILES = ("stats.jsonl", "strength.jsonl")


class ResultsError(Exception):
    """There is nothing to make a table of; the message says what to do."""


def records(folder: Path) -> Iterator[Record]:
    """Each line that a test below `folder` recorded, zipped or not.

    Raises:
        ResultsError: a line is no JSON object that names its target, or an archive is damaged.
    """
    for path in sorted(path for name in FILES for path in folder.rglob(name)):
        yield from _parse(path, path.read_bytes())
    for path in sorted(folder.rglob("outputs.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith(FILES):
                        yield from _parse(path, archive.read(name))
        except zipfile.BadZipFile as error:
            raise ResultsError(f"{path}: {error}: run the test again") from error


def _parse(path: Path, text: bytes) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            entry = json.loads(line)
        except ValueError as error:  # of JSON or of UTF-8
            raise ResultsError(f"{place}: no JSON ({error}): run the test again") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("target"), str):
            raise ResultsError(f"{place}: wanted an object with a target: run the test again")
        yield entry


def target_seconds(folder: Path) -> dict[str, float]:
    """Seconds of each test target below `folder`, pytest's start included, from its test.xml.

    Those of a target's shards are added up.

    Raises:
        ResultsError: a test.xml is damaged.
    """
    seconds: dict[str, float] = defaultdict(float)
    for path in sorted(folder.rglob("test.xml")):
        place = path.parent.parent if path.parent.name.startswith("shard_") else path.parent
        if path.stat().st_size:
            label = f"//{_package(place.parent, folder)}:{place.name}"
            try:
                suites = ET.parse(path).getroot().iter("testsuite")
                seconds[label] += sum(float(suite.get("time", 0)) for suite in suites)
            except (ET.ParseError, ValueError) as error:
                raise ResultsError(f"{path}: {error}: run the test again") from error
    return dict(seconds)


def _package(place: Path, folder: Path) -> Path:
    """From the folder of all test logs, which `folder` may lie in."""
    logs = next((p for p in [folder, *folder.parents] if p.name.endswith("testlogs")), folder)
    # The folder may be that of a single target.
    return place.relative_to(logs) if place.is_relative_to(logs) else Path()
