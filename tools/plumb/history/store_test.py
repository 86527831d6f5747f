"""What a history keeps of what it is told, and which runs it makes of that."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Attempt, Invocation, Store
from tools.plumb.history.summary import runs, runs_of, summaries

RAN = Attempt("//a:t", 1000, 50, "PASSED", "h100", "one", host="ci-7", configuration="opt")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "history.sqlite", create=True) as opened:
        yield opened


def test_an_invocation_once_seen_to_end_stays_ended(store: Store) -> None:
    for whole in (True, False):
        store.add_invocation(Invocation("one", 7, "test", whole=whole))
    assert store.rows("SELECT uuid, start_ms, whole FROM invocation") == [("one", 7, 1)]


def test_attempts_are_those_since_a_time_with_that_moment(store: Store) -> None:
    store.add(RAN)
    assert list(store.attempts(since_ms=1000)) == [RAN]
    assert list(store.attempts(since_ms=1001)) == []


def test_one_start_in_two_configurations_is_two_attempts(store: Store) -> None:
    assert store.add(RAN) and store.add(replace(RAN, configuration="dbg"))
    assert not store.add(RAN)
    assert {run.start_ms for run in runs(store.attempts())} == {1000}
    assert len(list(runs(store.attempts()))) == 2


def test_what_ran_is_kept_as_the_first_told_it(store: Store) -> None:
    store.add(RAN)
    assert not store.add(replace(RAN, ms=9, invocation="two"))
    assert list(store.attempts()) == [RAN]


def test_a_history_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(PlumbError, match="has schema 99"), open_store(path, create=True):
        pass


def test_the_last_attempt_of_a_shard_is_told_by_its_number() -> None:
    later = replace(RAN, attempt=2, start_ms=2000, ms=70)
    (run,) = runs([later, replace(RAN, status="FAILED")])
    assert (run.status, run.ms, run.attempts) == ("FLAKY", 70, 2)


def test_the_pool_is_that_of_the_newest_run_and_runs_without_end_are_left_out() -> None:
    moved = [RAN, replace(RAN, start_ms=2000, pool="b200", invocation="two")]
    unended = replace(RAN, start_ms=3000, status="INCOMPLETE", invocation="three")
    (found,) = summaries(runs([*moved, unended]))
    assert (found.pool, found.runs, found.failed, found.last_ms) == ("b200", 2, 0, 2000)


def test_cache_hits_are_those_of_the_same_tests_and_time_as_the_runs(store: Store) -> None:
    store.add(RAN)
    store.add(replace(RAN, label="//b:t"))
    for day in (1, 2, 3):
        store.add_invocation(Invocation(f"day{day}", day * 10_000, whole=True))
        for label in ("//a:t", "//b:t"):
            store.add(replace(RAN, label=label, invocation=f"day{day}", cached="local"))
    assert store.served() == {"//a:t": 3, "//b:t": 3}
    assert store.served("//a*", since_ms=20_000) == {"//a:t": 2}
    assert store.served("//a*", since_ms=30_001) == {}
    # Two invocations of one file: either tells when. Of an unknown one, the run does.
    store.add(replace(RAN, invocation="day3+lost", cached="local"))
    store.add(replace(RAN, invocation="unknown", cached="local"))
    assert store.served("//a*", since_ms=30_000) == {"//a:t": 2}
    assert store.served("//a*", since_ms=1_000) == {"//a:t": 5}


@pytest.mark.parametrize("cache", ["local", "remote"])
def test_a_shard_fails_again_while_a_cache_serves_the_others(store: Store, cache: str) -> None:
    for number in (1, 2, 3):
        for shard in (1, 2):
            status = "PASSED" if shard == 1 or number == 3 else "FAILED"
            again = number > 1 and shard == 1
            store.add(
                Attempt(
                    *(
                        "//a:t",
                        10 if again and cache == "local" else 10 * number,
                        50,
                        status,
                        "cpu",
                    ),
                    str(number),
                    shard=shard,
                    cached=cache if again else "",
                )
            )
    found = list(runs_of(store))
    assert [(run.status, run.shards, run.whole) for run in found] == [
        ("FAILED", 2, True),
        ("FAILED", 2, False),
        ("PASSED", 2, False),
    ]
    # A cache that serves all of it makes no run.
    for shard in (1, 2):
        start = 30 if shard == 2 else 10
        store.add(Attempt("//a:t", start, 50, "PASSED", "cpu", "4", shard=shard, cached="local"))
    assert len(list(runs_of(store))) == 3
