"""Reads JUnit reports, for runs that Bazel did not make."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history.events import LATEST_MS
from tools.plumb.history.store import Attempt, Invocation

_BAD = ("failure", "error", "rerunFailure", "rerunError")
# Surefire writes 1,234.5; a comma elsewhere is some language's decimal sign.
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_FLAKY = ("flakyFailure", "flakyError")


@dataclass(frozen=True)
class Report:
    """What a JUnit file tells."""

    invocation: Invocation
    attempts: tuple[Attempt, ...]


def read(path: Path, pool: str) -> Report:
    """One attempt a test file (a test case's `file`, or else its `classname`), seconds added up.

    So are those of several suites that name one file and began at one time. A file of which every
    case was skipped did not run, and is left out. A case with a
    `flakyFailure`, as Surefire and pytest-rerunfailures write, makes its file FLAKY.

    pool: where they ran, which JUnit does not say.
    Raises PlumbError: no JUnit, a time that is none, or no case in it.
    """
    try:
        data = path.read_bytes()
        root = ET.fromstring(data)
    except OSError as error:
        raise _refused(f"cannot read {path}: {error.strerror}. Give a JUnit report.") from error
    except (ET.ParseError, ValueError, LookupError) as error:
        # The latter two for an encoding that the parser does not know.
        raise _refused(f"{path} is no XML: {error}. Give a JUnit report.") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise _refused(f"{path} begins with <{root.tag:.80}>, wanted <testsuites> or <testsuite>.")
    # The same file again is the same invocation.
    uuid = f"junit:{hashlib.sha256(data).hexdigest()[:16]}"
    attempts = tuple(_attempts(path, root, uuid, pool))
    if not attempts:
        raise _refused(f"{path} holds no test case that ran: there is nothing to learn of it.")
    start = min(attempt.start_ms for attempt in attempts)
    host = attempts[0].host
    return Report(Invocation(uuid, start, "junit", "", host, whole=True), attempts)


def _refused(words: str) -> PlumbError:
    return PlumbError(words, ExitCode.ENVIRONMENT)


def _attempts(path: Path, root: ET.Element, uuid: str, pool: str) -> Iterator[Attempt]:
    found: dict[tuple[str, int], list[ET.Element]] = {}
    hosts: dict[tuple[str, int], str] = {}
    for suite in root.iter("testsuite"):
        start = _start(path, suite)
        for case in suite.findall("testcase"):
            name = case.get("file") or case.get("classname") or suite.get("name")
            if not name:
                raise _refused(
                    f"{path}: case '{case.get('name') or '':.80}' names no file, class or suite, "
                    "so nothing tells which test it is of. Write one of these into the report."
                )
            if case.find("skipped") is None:
                found.setdefault((name, start), []).append(case)
                hosts.setdefault((name, start), suite.get("hostname") or "")
    for (name, start), ran in found.items():
        yield Attempt(
            label=name,
            start_ms=start,
            ms=round(1000 * sum(_seconds(path, case) for case in ran)),
            status=_status(ran),
            pool=pool,
            invocation=uuid,
            host=hosts[name, start],
        )


def _status(cases: list[ET.Element]) -> str:
    if any(case.find(tag) is not None for case in cases for tag in _BAD):
        return "FAILED"
    return "FLAKY" if any(c.find(t) is not None for c in cases for t in _FLAKY) else "PASSED"


def _seconds(path: Path, case: ET.Element) -> float:
    text = case.get("time") or "0"
    try:
        value = float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise _refused(
            f"{path}: case '{case.get('name') or '':.80}' has time '{text:.40}', wanted seconds "
            "such as 12.5 or 1,234.5."
        )
    return value


def _start(path: Path, suite: ET.Element) -> int:
    """The suite's timestamp, taken for UTC where it names no zone; else the file's own time."""
    stamp = suite.get("timestamp")
    if not stamp:
        return min(max(round(path.stat().st_mtime * 1000), 0), LATEST_MS)
    try:
        moment = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError as error:
        raise _refused(f"{path}: timestamp '{stamp:.40}', wanted ISO 8601.") from error
    ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if not 0 <= ms <= LATEST_MS:
        raise _refused(f"{path}: timestamp '{stamp:.40}', wanted one from 1970 to 9999.")
    return ms
