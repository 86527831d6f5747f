"""What ran, in one SQLite file: invocations and attempts, each attempt once.

Bazel repeats a cached result in every invocation that needs it, with the start and duration of the
run that made it. So an attempt is known by its test, place and start, and is kept once, whichever
invocation told of it first; how often it was served from a cache is counted apart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Self


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
    """An open history. Use `opening.open_store`."""

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
