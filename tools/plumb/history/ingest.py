"""Fills the store from build event files; a file is taken whole or not at all."""

from __future__ import annotations

import errno
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history.events import (
    Configured,
    Finished,
    Host,
    Reading,
    Result,
    Started,
    read,
)
from tools.plumb.history.store import Attempt, Invocation, Store

UNKNOWN = "unknown"
"""The invocation of results whose file has lost its beginning."""
# What Bazel and its rules read tags for; any other plain tag beside "gpu" names the pool.
_OF_BAZEL = frozenset(
    {"gpu", "manual", "exclusive", "exclusive-if-local", "local", "external", "flaky"}
    | {"large", "small", "no-cache", "no-sandbox", "no-remote", "no-remote-cache"}
    | {"no-remote-exec", "requires-network", "block-network"}
)


@dataclass
class Ingested:
    """What a file gave.

    invocations: how many it tells of. new: attempts that were not known before. known: attempts
    that were. cached: results that a cache served. finished: the last invocation ended in it.
    """

    path: Path
    invocations: int = 0
    new: int = 0
    known: int = 0
    cached: int = 0
    finished: bool = False


def pool_of(tags: tuple[str, ...]) -> str:
    """The pool that a test's tags name: 'cpu' without the tag 'gpu', 'gpu' if none or several."""
    if "gpu" not in tags:
        return "cpu"
    named = [tag for tag in tags if ":" not in tag and tag not in _OF_BAZEL]
    return named[0] if len(named) == 1 else "gpu"


def ingest(path: Path, store: Store) -> tuple[Ingested, Reading]:
    """Adds the attempts of one file, or of what comes out of a pipe; with what is odd about it.

    Raises PlumbError: the file cannot be read, or holds no event of Bazel's.
    """
    reading = Reading()
    with _at_hand(path) as file, store.together():
        try:
            found = _File(file, store).add(reading)
        except OSError as error:
            raise _unread(path, error) from error
        found.path = path
        if not found.invocations and not found.new + found.known:
            raise PlumbError(
                f"{path} holds no event of a Bazel invocation ({reading.lines} lines, "
                f"{reading.count} of them no event). Give the file that Bazel wrote under "
                "--build_event_json_file.",
                ExitCode.ENVIRONMENT,
            )
    return found, reading


@contextmanager
def _at_hand(path: Path) -> Iterator[Path]:
    """The file, or a copy of what a pipe gives: nobody is to wait for its other end."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield path
            return
        if not stat.S_ISFIFO(mode):
            raise OSError(errno.EINVAL, "neither a file nor a pipe")
        with tempfile.NamedTemporaryFile(prefix="plumb-") as copy:
            with path.open("rb") as pipe:
                shutil.copyfileobj(pipe, copy)
            copy.flush()
            yield Path(copy.name)
    except OSError as error:
        raise _unread(path, error) from error


def _unread(path: Path, error: OSError) -> PlumbError:
    return PlumbError(
        f"cannot read {path}: {error.strerror}. Give the file that Bazel wrote under "
        "--build_event_json_file.",
        ExitCode.ENVIRONMENT,
    )


class _File:
    """A file on its way into the store.

    Invocations may follow one another in a file. Of two whose events alternate nothing tells which
    a result belongs to: it is kept under the names of both.
    """

    def __init__(self, path: Path, store: Store) -> None:
        self._found = Ingested(path)
        self._store = store
        self._pools: dict[str, str] = {}
        self._running: list[Invocation] = []

    def add(self, reading: Reading) -> Ingested:
        for event in read(self._found.path, reading):
            if isinstance(event, Result):
                self._count(event)
            elif isinstance(event, Configured):
                self._pools[event.label] = pool_of(event.tags)
            elif isinstance(event, Started):
                self._found.invocations += 1
                started = Invocation(event.uuid, event.start_ms, event.command, event.version)
                self._running.append(started)
                self._store.add_invocation(started)
            elif isinstance(event, Host) and self._running:
                self._running[-1] = replace(self._running[-1], host=event.name)
                self._store.add_invocation(self._running[-1])
            elif isinstance(event, Finished):
                self._finish(event)
        return self._found

    def _finish(self, event: Finished) -> None:
        self._found.finished = True
        if len(self._running) == 1:
            self._store.add_invocation(replace(self._running.pop(), whole=not event.early))
        self._running.clear()

    def _count(self, result: Result) -> None:
        self._found.finished = False
        host = self._running[-1].host if self._running else ""
        attempt = Attempt(
            label=result.label,
            start_ms=result.start_ms,
            ms=result.ms,
            status=result.status,
            pool=self._pools.get(result.label, ""),
            invocation="+".join(sorted(i.uuid for i in self._running)) or UNKNOWN,
            # Of what a cache served, the host that ran it is not told.
            host="" if result.cached else result.host or host,
            strategy=result.strategy,
            cached=result.cached,
            run=result.run,
            shard=result.shard,
            attempt=result.attempt,
            configuration=result.configuration,
        )
        is_new = self._store.add(attempt)
        self._found.new += is_new
        self._found.known += not is_new
        self._found.cached += bool(result.cached)
