"""What ran, in one SQLite file: invocations and attempts, each attempt once.

Bazel repeats a cached result in every invocation that needs it, with the start and duration of the
run that made it. So an attempt is known by its test, place and start, and is kept once, whichever
invocation told of it first; how often it was served from a cache is counted apart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from tools.plumb.errors import ExitCode, PlumbError

SCHEMA = 1
_TABLES = """
CREATE TABLE invocation (
    uuid TEXT PRIMARY KEY, start_ms INTEGER NOT NULL, command TEXT NOT NULL,
    version TEXT NOT NULL, host TEXT NOT NULL, whole INTEGER NOT NULL
) STRICT;
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY, label TEXT NOT NULL, configuration TEXT NOT NULL,
    run INTEGER NOT NULL, shard INTEGER NOT NULL, attempt INTEGER NOT NULL,
    start_ms INTEGER NOT NULL, ms INTEGER NOT NULL, status TEXT NOT NULL, pool TEXT NOT NULL,
    host TEXT NOT NULL, strategy TEXT NOT NULL, invocation TEXT NOT NULL,
    executed INTEGER NOT NULL,
    UNIQUE (label, configuration, run, shard, start_ms)
) STRICT;
CREATE INDEX attempt_by_label ON attempt (label, start_ms);
CREATE TABLE served (
    attempt INTEGER NOT NULL REFERENCES attempt, invocation TEXT NOT NULL, cache TEXT NOT NULL,
    PRIMARY KEY (attempt, invocation)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Invocation:
    """One call of Bazel. whole: it was seen to end."""

    uuid: str
    start_ms: int
    command: str = ""
    version: str = ""
    host: str = ""
    whole: bool = False


@dataclass(frozen=True)
class Attempt:
    """One attempt at one shard of one run of a test, as it ran.

    start_ms: since 1970; ms: how long. pool: 'cpu', 'h100'. cached: "" if it ran in `invocation`,
    else the cache ("local", "remote") that served it there. status: PASSED, FAILED, TIMEOUT …
    """

    label: str
    start_ms: int
    ms: int
    status: str
    pool: str
    invocation: str
    host: str = ""
    strategy: str = ""
    cached: str = ""
    run: int = 1
    shard: int = 1
    attempt: int = 1
    configuration: str = ""


class Execution(NamedTuple):
    """A run of a test in an invocation, all shards and attempts of it."""

    label: str
    configuration: str
    invocation: str
    run: int


class Store:
    """An open history. Use `open_store`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def knows(self, uuid: str) -> bool:
        """True if that invocation was added before."""
        return bool(self.rows("SELECT 1 FROM invocation WHERE uuid = ?", (uuid,)))

    @contextmanager
    def together(self) -> Iterator[Self]:
        """All that is added inside is kept, or none of it."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self

    def add_invocation(self, invocation: Invocation) -> None:
        """Adds one, or replaces what was known of it by a better reading."""
        self._connection.execute(
            "INSERT INTO invocation VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (uuid) DO UPDATE SET "
            "start_ms = excluded.start_ms, command = excluded.command, version = excluded.version, "
            "host = excluded.host, whole = max(whole, excluded.whole)",
            (
                *(invocation.uuid, invocation.start_ms, invocation.command, invocation.version),
                *(invocation.host, invocation.whole),
            ),
        )

    def add(self, attempt: Attempt) -> bool:
        """Adds an attempt; True if nothing was known of it.

        One that a cache served first is completed when the invocation that ran it comes to light.
        """
        # Not its number: a cache serves the last of several attempts as the first.
        key = (attempt.label, attempt.configuration, attempt.run, attempt.shard, attempt.start_ms)
        told = (
            *(attempt.attempt, attempt.ms, attempt.status, attempt.pool, attempt.host),
            *(attempt.strategy, attempt.invocation),
        )
        executed = not attempt.cached
        found = self._connection.execute(
            "SELECT id, executed FROM attempt WHERE label = ? AND configuration = ? AND run = ? "
            "AND shard = ? AND start_ms = ?",
            key,
        ).fetchone()
        if found is None:
            cursor = self._connection.execute(
                "INSERT INTO attempt (label, configuration, run, shard, start_ms, attempt, ms, "
                "status, pool, host, strategy, invocation, executed) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, *told, executed),
            )
            number = cursor.lastrowid
        else:
            number = int(found[0])
            if executed and not found[1]:
                self._connection.execute(
                    "UPDATE attempt SET attempt = ?, ms = ?, status = ?, pool = ?, host = ?, "
                    "strategy = ?, invocation = ?, executed = 1 WHERE id = ?",
                    (*told, number),
                )
        if not executed:
            self._connection.execute(
                "INSERT OR IGNORE INTO served VALUES (?, ?, ?)",
                (number, attempt.invocation, attempt.cached),
            )
        return found is None

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """What a query gives."""
        return self._connection.execute(sql, values).fetchall()

    def attempts(self, labels: str = "*", since_ms: int = 0) -> Iterator[Attempt]:
        """Attempts of the labels that a glob names, by label and start; none twice.

        What a remote cache alone told of is left out: its start is that of the look-up.
        """
        cursor = self._connection.execute(
            "SELECT label, start_ms, ms, status, pool, invocation, host, strategy, '', run, shard, "
            "attempt, configuration FROM attempt WHERE label GLOB ? AND start_ms >= ? AND "
            "(executed OR NOT EXISTS (SELECT 1 FROM served WHERE served.attempt = attempt.id "
            "AND cache = 'remote')) ORDER BY label, start_ms, run, shard, attempt",
            (labels, since_ms),
        )
        for row in cursor:
            yield Attempt(*row)

    def shared(self, labels: str = "*") -> dict[Execution, dict[int, int]]:
        """Of executions that ran some shards of a test while a cache served others: the latter.

        Their milliseconds, by number, also of those that ran when this history did not look.
        """
        found: dict[Execution, dict[int, int]] = {}
        for label, configuration, invocation, run, shard, ms in self._connection.execute(
            "SELECT label, configuration, served.invocation, run, shard, ms FROM served "
            "JOIN attempt ON served.attempt = attempt.id WHERE label IN "
            "(SELECT label FROM attempt WHERE shard > 1 AND label GLOB ?)",
            (labels,),
        ):
            found.setdefault(Execution(label, configuration, invocation, run), {})[shard] = ms
        ran = self._connection.execute(
            "SELECT DISTINCT label, configuration, invocation, run FROM attempt WHERE executed "
            "AND label IN (SELECT label FROM attempt WHERE shard > 1 AND label GLOB ?)",
            (labels,),
        )
        both = found.keys() & {Execution(*row) for row in ran}
        return {execution: found[execution] for execution in both}

    def unended(self) -> frozenset[str]:
        """Invocations that were not seen to end by themselves."""
        return frozenset(
            str(uuid) for (uuid,) in self.rows("SELECT uuid FROM invocation WHERE NOT whole")
        )

    def served(self, labels: str = "*", since_ms: int = 0) -> dict[str, int]:
        """How often each test was answered from a cache, by label, in invocations since a time.

        Of results whose invocation is unknown the time is that of their run.
        """
        found = self.rows(
            "SELECT label, count(*) FROM served JOIN attempt ON served.attempt = attempt.id "
            # Of two whose lines alternate, both names stand there, and either tells the time.
            "LEFT JOIN invocation ON uuid = substr(served.invocation, 1, "
            "instr(served.invocation || '+', '+') - 1) "
            "WHERE label GLOB ? AND coalesce(invocation.start_ms, attempt.start_ms) >= ? "
            "GROUP BY label",
            (labels, since_ms),
        )
        return {str(label): int(str(count)) for label, count in found}


@contextmanager
def open_store(path: Path, create: bool = False) -> Iterator[Store]:
    """The history in that file.

    Raises PlumbError: there is none (and it is not to be made), it is no history, it is locked, or
    it cannot be written.
    """
    if path.is_dir():
        raise PlumbError(
            f"{path} is a folder, wanted a history's file: name one in it.", ExitCode.ENVIRONMENT
        )
    if not create and (not path.is_file() or not path.stat().st_size):
        raise PlumbError(
            f"no history at {path}. Make one: run Bazel with --build_event_json_file=FILE, then "
            f"`plumb history ingest FILE`.",
            ExitCode.ENVIRONMENT,
        )
    _make_folder(path)
    try:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            _prepare(connection, path)
            yield Store(connection)
    except sqlite3.DatabaseError as error:
        raise PlumbError(_words(path, error), ExitCode.ENVIRONMENT) from error


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlumbError(
            f"cannot make the folder {path.parent} for the history: {error.strerror}. Name a file "
            "elsewhere with --store.",
            ExitCode.ENVIRONMENT,
        ) from error


def _words(path: Path, error: sqlite3.DatabaseError) -> str:
    """What is wrong with the history, and what to do."""
    # A code of SQLite's is the kind in its low byte, and a finer one above.
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is being written by another plumb: SQLite says '{error}'. Run it again."
    if kind == sqlite3.SQLITE_FULL:
        return f"{path}: SQLite says '{error}'. Free some space there, or name another --store."
    beyond = (
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH),
    )
    if kind in beyond:
        return (
            f"{path} cannot be opened or written: SQLite says '{error}'. Name a file with --store "
            "that you may write, in a folder that you may write."
        )
    return f"{path} is no history: SQLite says '{error}'. Move it away, or name another --store."


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA:
        return
    if version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise PlumbError(
            f"{path} has schema {version}, this plumb reads {SCHEMA}. Ingest the build event files "
            "again into another --store.",
            ExitCode.ENVIRONMENT,
        )
    connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
