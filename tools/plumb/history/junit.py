"""Reads JUnit reports, for runs that Bazel did not make."""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history.store import Attempt, Invocation

_BAD = ("failure", "error", "rerunFailure", "rerunError")
_FLAKY = ("flakyFailure", "flakyError")


@dataclass(frozen=True)
class Report:
    """What a JUnit file tells."""

    invocation: Invocation
    attempts: tuple[Attempt, ...]


def read(path: Path, pool: str) -> Report:
    """One attempt a test file (a test case's `file`, or else its `classname`), seconds added up.

    A file of which every case was skipped did not run, and is left out. A case with a
    `flakyFailure`, as Surefire and pytest-rerunfailures write, makes its file FLAKY.

    pool: where they ran, which JUnit does not say.
    Raises PlumbError: no JUnit, a time that is none, or no case in it.
    """
    try:
        data = path.read_bytes()
        root = ET.fromstring(data)
    except OSError as error:
        raise PlumbError(f"{path}: {error.strerror}", ExitCode.ENVIRONMENT) from error
    except ET.ParseError as error:
        raise PlumbError(f"{path} is no XML: {error}. Give a JUnit report.") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise PlumbError(f"{path} begins with <{root.tag}>, wanted <testsuites> or <testsuite>.")
    # The same file again is the same invocation.
    uuid = f"junit:{hashlib.sha256(data).hexdigest()[:16]}"
    attempts = tuple(_attempts(path, root, uuid, pool))
    if not attempts:
        raise PlumbError(f"{path} holds no test case that ran: there is nothing to learn of it.")
    start = min(attempt.start_ms for attempt in attempts)
    host = attempts[0].host
    return Report(Invocation(uuid, start, "junit", "", host, whole=True), attempts)


def _attempts(path: Path, root: ET.Element, uuid: str, pool: str) -> Iterator[Attempt]:
    for suite in root.iter("testsuite"):
        files: dict[str, list[ET.Element]] = {}
        for case in suite.findall("testcase"):
            name = case.get("file") or case.get("classname") or suite.get("name") or ""
            files.setdefault(name, []).append(case)
        start = _start(path, suite)
        for name, cases in files.items():
            ran = [case for case in cases if case.find("skipped") is None]
            if ran:
                yield Attempt(
                    label=name,
                    start_ms=start,
                    ms=round(1000 * sum(_seconds(path, case) for case in ran)),
                    status=_status(ran),
                    pool=pool,
                    invocation=uuid,
                    host=suite.get("hostname") or "",
                )


def _status(cases: list[ET.Element]) -> str:
    if any(case.find(tag) is not None for case in cases for tag in _BAD):
        return "FAILED"
    return "FLAKY" if any(c.find(t) is not None for c in cases for t in _FLAKY) else "PASSED"


def _seconds(path: Path, case: ET.Element) -> float:
    text = (case.get("time") or "0").replace(",", "")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise PlumbError(f"{path}: case '{case.get('name')}' has time '{text}', wanted seconds.")
    return value


def _start(path: Path, suite: ET.Element) -> int:
    """The suite's timestamp, taken for UTC where it names no zone; else the file's own time."""
    stamp = suite.get("timestamp")
    if not stamp:
        return round(path.stat().st_mtime * 1000)
    try:
        moment = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError as error:
        raise PlumbError(f"{path}: timestamp '{stamp}', wanted ISO 8601.") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
