"""Reads the files that Bazel writes under --build_event_json_file, one event at a time.

A line is an event (Bazel's build_event_stream.proto, as JSON). Only the few kinds that tell of
tests are parsed, so that a file of any size takes little memory, and a kind or a field that a newer
Bazel adds is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line beyond which it is not read: an event of a test has a few thousand."""
_KINDS = (
    *(b'"started"', b'"workspaceStatus"', b'"targetConfigured"', b'"testResult"'),
    b'"buildFinished"',
)
# Bazel's ExitCode: the tests that are left have no verdict.
_EARLY = frozenset({"INTERRUPTED", "BLAZE_INTERNAL_ERROR", "OOM_ERROR"})
_WINDOW = 400  # an event's id stands first
LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, beyond which no date can be written."""
_MOST = 2**31 - 1  # of a run, a shard, an attempt: int32 in Bazel's protocol


@dataclass(frozen=True)
class Started:
    """An invocation begins. start_ms: since 1970."""

    uuid: str
    start_ms: int
    command: str
    version: str


@dataclass(frozen=True)
class Configured:
    """A target with its tags."""

    label: str
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Host:
    """The machine that Bazel ran on."""

    name: str


@dataclass(frozen=True)
class Finished:
    """The invocation that began last has ended. early: it was interrupted, or Bazel crashed."""

    early: bool = False


@dataclass(frozen=True)
class Result:
    """One attempt at one shard of one run of a test.

    configuration: an id of Bazel's. start_ms, ms: when and how long it ran, which a cached result
    repeats. cached: "" if it ran in this invocation, else "local" or "remote". status: Bazel's
    word, such as PASSED, FAILED, FLAKY, TIMEOUT. host: where it ran, if a remote executor says.
    """

    label: str
    configuration: str
    run: int
    shard: int
    attempt: int
    start_ms: int
    ms: int
    status: str
    cached: str
    strategy: str
    host: str


Event = Started | Configured | Host | Finished | Result


@dataclass
class Reading:
    """What is odd about a file: lines that hold no whole event, and events without what they need.

    broken: numbers of the first such lines. count: of all of them.
    """

    broken: list[int] = field(default_factory=list)
    count: int = 0
    started: int = 0
    lines: int = 0

    def add(self, line: int) -> None:
        """One more."""
        self.count += 1
        if len(self.broken) < 5:
            self.broken.append(line)


def read(path: Path, reading: Reading) -> Iterator[Event]:
    """The events of a file that tell of tests, in its order; what is odd goes into `reading`."""
    with path.open("rb") as file:
        for line in _lines(file, reading):
            if any(kind in line[:_WINDOW] for kind in _KINDS):
                event = _parse(line, reading)
                if event is not None:
                    reading.started += isinstance(event, Started)
                    yield event
            elif not _is_event(line):
                reading.add(reading.lines)


def _lines(file: IO[bytes], reading: Reading) -> Iterator[bytes]:
    """Whole lines; one that is too long is skipped and noted."""
    while line := file.readline(LONGEST_LINE):
        reading.lines += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            reading.add(reading.lines)
            while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            continue
        if line.strip():
            yield line


def _is_event(line: bytes) -> bool:
    """Whether a line that is not parsed at least begins and ends as an event does."""
    line = line.strip()
    return line.startswith(b'{"id":') and line.endswith(b"}")


def _parse(line: bytes, reading: Reading) -> Event | None:
    try:
        event = json.loads(line)
        return _event(event)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        reading.add(reading.lines)
        return None


def _event(event: dict[str, Any]) -> Event | None:
    """Raises KeyError, TypeError, ValueError, OverflowError or AttributeError if the event lacks
    what it needs, or has what no run can have.
    """
    ident = event["id"]
    if "testResult" in ident and "testResult" in event:
        return _result(ident["testResult"], event["testResult"])
    if "targetConfigured" in ident and "configured" in event:
        label, tags = ident["targetConfigured"]["label"], event["configured"].get("tag", [])
        return Configured(_text(label), tuple(_text(tag) for tag in tags))
    if "started" in ident and "started" in event:
        own = event["started"]
        start = _ms(own, "startTimeMillis", "startTime")
        version = _text(own.get("buildToolVersion", ""))
        return Started(_text(own["uuid"]), start, _text(own.get("command", "")), version)
    if "buildFinished" in ident and "finished" in event:
        code = event["finished"].get("exitCode", {}).get("name", "")
        return Finished(early=code in _EARLY)
    if "workspaceStatus" in ident and "workspaceStatus" in event:
        items = event["workspaceStatus"].get("item", [])
        named = {item.get("key"): _text(item.get("value", "")) for item in items}
        return Host(named["BUILD_HOST"]) if "BUILD_HOST" in named else None
    return None


def _result(ident: dict[str, Any], own: dict[str, Any]) -> Result:
    execution = own.get("executionInfo", {})
    remotely = bool(execution.get("cachedRemotely"))
    cached = "local" if own.get("cachedLocally") else "remote" if remotely else ""
    return Result(
        label=_text(ident["label"]),
        configuration=_text(ident.get("configuration", {}).get("id", "")),
        run=_within(int(ident.get("run", 1)), 1, _MOST),
        shard=_within(int(ident.get("shard", 1)), 1, _MOST),
        attempt=_within(int(ident.get("attempt", 1)), 1, _MOST),
        start_ms=_ms(own, "testAttemptStartMillisEpoch", "testAttemptStart"),
        ms=_duration(own),
        status=_text(own["status"]),
        cached=cached,
        strategy=_text(execution.get("strategy", "")),
        host=_text(execution.get("hostname", "")),
    )


def _text(value: object) -> str:
    """Raises TypeError, or ValueError for half a character, which cannot be stored."""
    if not isinstance(value, str):
        raise TypeError
    value.encode()
    return value


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError
    return value


def _ms(own: dict[str, Any], millis: str, stamp: str) -> int:
    """Milliseconds since 1970, from the field of Bazels up to 7 or the one that replaces it."""
    if millis in own:
        return _within(int(own[millis]), 0, LATEST_MS)
    moment = datetime.fromisoformat(own[stamp].replace("Z", "+00:00"))
    return _within(round(moment.timestamp() * 1000), 0, LATEST_MS)


def _duration(own: dict[str, Any]) -> int:
    if "testAttemptDurationMillis" in own:
        ms = int(own["testAttemptDurationMillis"])
    else:
        ms = round(float(str(own["testAttemptDuration"]).removesuffix("s")) * 1000)
    return _within(ms, 0, LATEST_MS)
