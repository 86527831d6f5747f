"""Opens a history's file, makes one, and says what is wrong with one that cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.history.store import Store

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
_WAIT_SECONDS = 600
"""For other writers: each holds the history for as long as it reads a file."""
_SMALL = 4 << 20
"""Bytes of free space below which a failed write is the disk's."""
# What the header says in its bytes 18 and 19 (SQLite's file format, 1.3.3).
_WAL = b"\x02\x02"


@contextmanager
def open_store(path: Path, create: bool = False) -> Iterator[Store]:
    """The history in that file, to be read; with `create` to be written, and made if need be.

    Raises PlumbError: there is none (and it is not to be made), it is no history, it is locked, or
    it cannot be written.
    """
    if path.is_dir():
        raise PlumbError(
            f"{path} is a folder, wanted a history's file: name one in it.", ExitCode.ENVIRONMENT
        )
    if not create and (not path.is_file() or not path.stat().st_size):
        raise _none(path)
    if create:
        _make_folder(path)
    try:
        with closing(_connected(path, create)) as connection:
            (_prepare if create else _check)(connection, path)
            yield Store(connection)
    except sqlite3.DatabaseError as error:
        raise PlumbError(_words(path, error), ExitCode.ENVIRONMENT) from error


def _none(path: Path) -> PlumbError:
    return PlumbError(
        f"no history at {path}. Make one: run Bazel with --build_event_json_file=FILE, then "
        "`plumb history ingest FILE`.",
        ExitCode.ENVIRONMENT,
    )


def _connected(path: Path, create: bool) -> sqlite3.Connection:
    # An address, since some names of files, such as ':memory:', mean something else to SQLite.
    address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    if not create and _is_left_alone(path):
        address += "&immutable=1"
    return sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)


def _is_left_alone(path: Path) -> bool:
    """True for a history with a write-ahead log that nobody can write.

    Earlier versions made such ones. SQLite would want a file beside it even to read.
    """
    with path.open("rb") as file:
        header = file.read(20)
    log = path.with_name(f"{path.name}-wal")
    return header[18:20] == _WAL and not log.exists() and not os.access(path.parent, os.W_OK)


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
    if kind == sqlite3.SQLITE_FULL or (kind == sqlite3.SQLITE_IOERR and _is_full(path)):
        return (
            f"{path}: SQLite says '{error}'. Free some space in {path.parent}, or name another "
            "--store."
        )
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


def _is_full(path: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < _SMALL
    return False


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the tables, if it has none. What is no history is left as it is."""
    if _version(connection, path) != SCHEMA:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another may have made them meanwhile.
            if _version(connection, path) != SCHEMA:
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    # One journal, which goes with each write, so that a reader need not write. A history of earlier
    # versions is changed when nobody reads it.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000}")
    # Else a large file's pages would shut readers out while it is taken in.
    connection.execute("PRAGMA cache_spill = OFF")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection, path) != SCHEMA:
        raise _none(path)
    tables = ("attempt", "invocation")
    if not any(connection.execute(f"SELECT 1 FROM {t} LIMIT 1").fetchone() for t in tables):
        # An ingest that failed left it.
        raise _none(path)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """SCHEMA, or 0 for an empty file. Raises PlumbError: it is another program's, or of another
    version.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == SCHEMA:
        return version
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if version and (not names or "attempt" in names):
        raise PlumbError(
            f"{path} has schema {version}, this plumb reads {SCHEMA}. Ingest the build event files "
            "again into another --store.",
            ExitCode.ENVIRONMENT,
        )
    if version or names:
        raise PlumbError(
            f"{path} is no history: it is a database of another program, and was left as it is. "
            "Name another --store.",
            ExitCode.ENVIRONMENT,
        )
    return 0
