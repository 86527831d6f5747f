"""What Bazel 7.7.1 wrote (testdata), and the same damaged, into a store."""

import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.history import events
from tools.plumb.history.ingest import ingest, pool_of
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Attempt, Store
from tools.plumb.history.summary import runs

DATA = Path(__file__).parent / "testdata"
# Of two invocations one after the other: the first ran everything, the second the failed test.
RAN, CACHED = DATA / "ran.json", DATA / "cached.json"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "history.sqlite", create=True) as opened:
        yield opened


def kept(store: Store) -> list[tuple[str, int, int, str]]:
    """(label, shard, ms, status) of each attempt."""
    return [(a.label, a.shard, a.ms, a.status) for a in store.attempts()]


EVERY = [
    ("//a:bad_test", 1, 161, "FAILED"),
    ("//a:bad_test", 1, 143, "FAILED"),
    ("//a:flaky_test", 1, 103, "FAILED"),
    ("//a:flaky_test", 1, 85, "PASSED"),
    ("//a:sharded_test", 1, 385, "PASSED"),
    ("//a:sharded_test", 2, 465, "PASSED"),
]


def test_each_attempt_is_kept_with_pool_and_host(store: Store) -> None:
    found, reading = ingest(RAN, store)
    assert (found.new, found.known, found.cached, found.finished) == (5, 0, 0, True)
    assert reading.count == 0
    attempts = list(store.attempts("//a:sharded_test"))
    assert [(a.pool, a.host, a.strategy) for a in attempts] == [
        ("h100", "ci-7", "linux-sandbox")
    ] * 2
    assert attempts[0].start_ms == 1796067846883


@pytest.mark.parametrize("order", [(RAN, CACHED), (CACHED, RAN), (CACHED, RAN, CACHED, RAN)])
def test_cached_results_are_never_counted_twice(store: Store, order: tuple[Path, ...]) -> None:
    for path in order:
        ingest(path, store)
    assert kept(store) == EVERY
    assert store.served() == {"//a:flaky_test": 1, "//a:sharded_test": 2}
    assert {a.host for a in store.attempts()} == {"ci-7"}
    assert [r.status for r in runs(store.attempts())] == ["FAILED", "FAILED", "FLAKY", "PASSED"]


def test_a_cached_result_whose_run_was_never_seen_counts_once(store: Store) -> None:
    found, _ = ingest(CACHED, store)
    assert (found.new, found.cached) == (4, 3)
    assert [(r.label, r.ms, r.status) for r in runs(store.attempts())] == [
        ("//a:bad_test", 143, "FAILED"),
        ("//a:flaky_test", 85, "FLAKY"),
        ("//a:sharded_test", 850, "PASSED"),
    ]


def remote(cached: bool, start: str) -> str:
    """A result of a remote executor."""
    own = {
        "status": "PASSED",
        "testAttemptStart": start,
        "testAttemptDuration": "1.5s",
        "executionInfo": {"strategy": "remote", "hostname": "gpu-3", "cachedRemotely": cached},
    }
    ident = {"label": "//a:t", "configuration": {"id": "c"}}
    return json.dumps({"id": {"testResult": ident}, "testResult": own}) + "\n"


def test_a_remote_cache_hit_is_no_run_and_newer_time_fields_are_read(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "bep.json"
    path.write_text(remote(False, "2026-11-30T19:00:00Z") + remote(True, "2026-11-30T20:00:00Z"))
    ingest(path, store)
    (attempt,) = store.attempts()
    assert (attempt.start_ms, attempt.ms, attempt.host) == (1796065200000, 1500, "gpu-3")
    assert store.served() == {"//a:t": 1}


# Without its last newline alone a file is whole; the invocation's end stands some lines before.
@pytest.mark.parametrize(
    ("cut", "finished", "broken"), [(1, True, 0), (7, True, 1), (150, True, 1), (1500, False, 1)]
)
def test_a_truncated_file_gives_what_it_holds(
    store: Store, tmp_path: Path, cut: int, finished: bool, broken: int
) -> None:
    path = tmp_path / "bep.json"
    path.write_bytes(RAN.read_bytes()[:-cut])
    found, reading = ingest(path, store)
    assert found.new > 0
    assert (found.finished, reading.count) == (finished, broken)


def test_a_file_without_its_beginning_gives_its_results(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bep.json"
    lines = RAN.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[1:]))
    assert ingest(path, store)[0].new == 5
    assert {a.invocation for a in store.attempts()} == {"unknown"}
    # Found later, the whole file completes nothing twice.
    ingest(RAN, store)
    assert len(list(store.attempts())) == 5


def test_two_invocations_after_one_another_are_told_apart(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bep.json"
    path.write_text(RAN.read_text() + CACHED.read_text())
    found, _ = ingest(path, store)
    assert found.invocations == 2
    assert kept(store) == EVERY
    by_run = {a.invocation for a in store.attempts("//a:bad_test")}
    assert len(by_run) == 2 and not any("+" in uuid for uuid in by_run)


def test_two_invocations_whose_lines_alternate_keep_every_attempt(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "bep.json"
    pairs = zip(RAN.read_text().splitlines(), CACHED.read_text().splitlines(), strict=False)
    path.write_text("".join(f"{a}\n{b}\n" for a, b in pairs))
    ingest(path, store)
    assert {a.label for a in store.attempts()} == {label for label, *_ in EVERY}
    assert any("+" in a.invocation for a in store.attempts())


def test_lines_torn_into_one_another_are_counted_and_passed_over(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "bep.json"
    lines = RAN.read_text().splitlines()
    torn = next(i for i, line in enumerate(lines) if "//a:bad_test" in line and '"FAILED"' in line)
    lines[torn] = lines[torn][:200] + lines[0]
    path.write_text("\n".join([*lines, "Killed"]) + "\n")
    found, reading = ingest(path, store)
    assert (found.new, reading.count, reading.broken) == (4, 2, [torn + 1, len(lines) + 1])


def test_events_and_fields_of_newer_bazels_are_passed_over(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bep.json"
    text = RAN.read_text().replace('"status":"PASSED"', '"status":"PASSED","novelty":{"a":[1]}')
    path.write_text('{"id":{"somethingNew":{}},"somethingNew":{"started":1}}\n' + text)
    found, reading = ingest(path, store)
    assert (found.new, reading.count) == (5, 0)


@pytest.mark.parametrize("text", ["", "hello\n", "[]\n", '{"a": 1}\n', "\x00\x01\n" * 50, "null\n"])
def test_a_file_that_is_none_of_bazels_is_refused(store: Store, tmp_path: Path, text: str) -> None:
    path = tmp_path / "bep.json"
    path.write_text(text)
    with pytest.raises(PlumbError, match="no event of a Bazel invocation"):
        ingest(path, store)
    assert not list(store.attempts())


def test_a_missing_file_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match=r"none\.json: No such file"):
        ingest(tmp_path / "none.json", store)


def test_a_big_file_takes_little_memory(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A line that is longer than any event of a test, and many of kinds that nobody reads.
    monkeypatch.setattr(events, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "bep.json"
    with path.open("w") as file:
        file.write('{"id":{"namedSet":{"id":"0"}},"x":"' + "y" * (5 << 20) + '"}\n')
        file.write(RAN.read_text())
        for i in range(40_000):
            file.write(f'{{"id":{{"progress":{{"opaqueCount":{i}}}}},"x":"{"y" * 1000}"}}\n')
    tracemalloc.start()
    found, reading = ingest(path, store)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.new, reading.count, reading.broken) == (5, 1, [1])
    assert peak < 8 << 20 < path.stat().st_size


@pytest.mark.parametrize(
    ("tags", "pool"),
    [
        ((), "cpu"),
        (("cpu", "seconds:2"), "cpu"),
        (("gpu", "gpus:1", "h100", "no-sandbox"), "h100"),
        (("gpu",), "gpu"),
        (("gpu", "h100", "b200"), "gpu"),
    ],
)
def test_the_pool_is_what_the_tags_name(tags: tuple[str, ...], pool: str) -> None:
    assert pool_of(tags) == pool


def test_a_store_that_is_none_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_text("not a database, but longer than its header" * 9)
    before = path.read_bytes()
    with pytest.raises(PlumbError, match="is no history"), open_store(path, create=True):
        pass
    assert path.read_bytes() == before


def test_a_missing_store_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="plumb history ingest"), open_store(tmp_path / "h.sqlite"):
        pass


def test_a_file_that_fails_midway_leaves_the_store_as_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Store.add
    seen: list[Attempt] = []

    def fail_at_third(self: Store, attempt: Attempt) -> bool:
        seen.append(attempt)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return add(self, attempt)

    monkeypatch.setattr(Store, "add", fail_at_third)
    with pytest.raises(KeyboardInterrupt):
        ingest(RAN, store)
    assert not list(store.attempts())


def result(**changes: object) -> str:
    own = {"testAttemptStartMillisEpoch": "9", "testAttemptDurationMillis": "5", "status": "PASSED"}
    ident = {"label": "//a:t"}
    for name, value in changes.items():
        (ident if name in ("label", "run", "shard") else own)[name] = value  # type: ignore[assignment]
    return json.dumps({"id": {"testResult": ident}, "testResult": own})


@pytest.mark.parametrize(
    "line",
    [
        result(testAttemptDurationMillis=10**30),
        result(testAttemptDurationMillis=-1),
        result(testAttemptStartMillisEpoch=10**17),
        result(testAttemptStartMillisEpoch=-1),
        result(testAttemptStartMillisEpoch=float("inf")),
        result(run=10**40),
        result(shard=0),
        result(label="//a:\ud800"),
        result(status=["PASSED"]),
        '{"id": {"testResult": ' + "[" * 100_000 + "}",
    ],
    ids=lambda line: line[-60:],
)
def test_what_no_run_can_be_is_passed_over_and_the_rest_is_kept(
    store: Store, tmp_path: Path, line: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(f"{line}\n{RAN.read_text()}")
    found, reading = ingest(path, store)
    assert (found.new, reading.count, reading.broken) == (5, 1, [1])


def test_two_files_without_beginning_are_two_runs(store: Store, tmp_path: Path) -> None:
    for start, status in ((1, "FAILED"), (2, "PASSED")):
        path = tmp_path / f"{start}.json"
        path.write_text(result(testAttemptStartMillisEpoch=start, status=status))
        ingest(path, store)
    assert [run.status for run in runs(store.attempts())] == ["FAILED", "PASSED"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("PRAGMA user_version = 1; CREATE TABLE other (x)", "is no history: .*Move it away"),
        ("PRAGMA user_version = 7", "has schema 7, this plumb reads 1"),
    ],
)
def test_a_database_of_another_kind_says_what_to_do(
    tmp_path: Path, script: str, words: str
) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    with pytest.raises(PlumbError, match=words), open_store(path, create=True) as opened:
        list(opened.attempts())


def test_a_place_where_no_store_can_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path, words in (
        (tmp_path, "is a folder, wanted a history's file"),
        (file / "deep/history.sqlite", "cannot make the folder .*file/deep"),
        # A sandbox may not let it be written at all.
        (Path("/dev/full"), "Free some space in /dev|cannot be opened or written"),
    ):
        with pytest.raises(PlumbError, match=words), open_store(path, create=True):
            pass
    # An empty file is none, and asking does not make it one.
    with pytest.raises(PlumbError, match="no history at"), open_store(file):
        pass
    assert file.stat().st_size == 0


def test_an_interrupted_invocation_did_not_end_by_itself(store: Store, tmp_path: Path) -> None:
    text = RAN.read_text()
    assert text.count('"exitCode":{"name":"TESTS_FAILED"') == 1
    path = tmp_path / "bep.json"
    path.write_text(text.replace('"name":"TESTS_FAILED"', '"name":"INTERRUPTED"'))
    found, _ = ingest(path, store)
    assert found.finished and len(store.unended()) == 1
    ingest(RAN, store)
    assert not store.unended()
