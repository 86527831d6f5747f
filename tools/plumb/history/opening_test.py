"""Which files are taken for a history, and what becomes of those that are none."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.history.ingest import ingest
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Attempt

RAN = Attempt("//a:t", 1000, 50, "PASSED", "h100", "one")
LINE = (
    '{"id": {"testResult": {"label": "//a:t"}}, "testResult": {"testAttemptStartMillisEpoch": 9, '
    '"testAttemptDurationMillis": 5, "status": "PASSED"}}\n'
)
ADD = """
import sys
from pathlib import Path
from tools.plumb.history.opening import open_store
from tools.plumb.history.store import Attempt

sys.stdin.readline()
with open_store(Path(sys.argv[1]), create=True) as store, store.together():
    store.add(Attempt("//a:t", int(sys.argv[2]), 50, "PASSED", "h100", "one"))
"""


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "a b#c?d%20", "\udcff"])
def test_any_name_is_that_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(Path(name), create=True) as store:
        store.add(RAN)
    assert files_in(tmp_path) == [name]
    with open_store(Path(name)) as store:
        assert list(store.attempts()) == [RAN]


def test_several_may_make_one_history(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    adding = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, str(path), str(number)],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for number in range(4)
    ]
    try:
        for one in adding:
            assert one.stdin is not None
            one.stdin.write(b"go\n")
            one.stdin.flush()
        assert [one.wait() for one in adding] == [0] * 4
    finally:
        for one in adding:
            one.kill()
            one.communicate()
    with open_store(path) as store:
        assert len(list(store.attempts())) == 4


def test_one_that_another_made_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"")
    connect = sqlite3.connect

    class Late(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            if sql == "BEGIN IMMEDIATE" and not path.stat().st_size:
                monkeypatch.setattr(sqlite3, "connect", connect)
                with open_store(path, create=True) as other:
                    other.add(RAN)
            return super().execute(sql, *values)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Late))
    with open_store(path, create=True) as store:
        assert list(store.attempts()) == [RAN]


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("script", ["", "PRAGMA user_version = 3;"])
def test_another_programs_database_is_refused_and_left_alone(
    tmp_path: Path, create: bool, script: str
) -> None:
    path = tmp_path / "foreign.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{script} CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    with pytest.raises(PlumbError, match="database of another program"), open_store(path, create):
        pass
    assert path.read_bytes() == before
    assert files_in(tmp_path) == ["foreign.sqlite"]


def test_a_history_is_one_file_and_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with open_store(path, create=True) as store:
        store.add(RAN)
        assert files_in(tmp_path) == ["history.sqlite"]
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        with open_store(path) as store:
            assert list(store.attempts()) == [RAN]
    finally:
        tmp_path.chmod(0o755)


def test_one_with_a_log_is_read_and_made_one_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.sqlite"
    with open_store(path, create=True) as store:
        store.add(RAN)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with monkeypatch.context() as patched:
        # As on a read-only mount, also to root.
        patched.setattr(os, "access", lambda path, mode: False)
        with open_store(path) as store:
            assert list(store.attempts()) == [RAN]
            assert files_in(tmp_path) == ["history.sqlite"]
    with open_store(path, create=True) as store:
        store.add(replace(RAN, start_ms=2))
        assert files_in(tmp_path) == ["history.sqlite"]
    assert path.read_bytes()[18:20] == b"\x01\x01"


def test_readers_do_not_wait_for_an_ingest(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with open_store(path, create=True) as store:
        store.add(RAN)
        with store.together():
            for start in range(20_000):
                store.add(replace(RAN, start_ms=start, label=f"//a:{start}"))
            with open_store(path) as reader:
                assert list(reader.attempts()) == [RAN]


def test_a_pipe_is_taken_in_and_holds_up_nobody_before_its_end(tmp_path: Path) -> None:
    pipe, path = tmp_path / "pipe", tmp_path / "history.sqlite"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w") as end, open_store(path, create=True) as other:
            # The reader is at the pipe already, since it is open; the history is free.
            other.add(RAN)
            end.write(LINE)

    writer = threading.Thread(target=write)
    writer.start()
    with open_store(path, create=True) as store:
        found, _ = ingest(pipe, store)
        writer.join()
        assert (found.path, found.new, len(list(store.attempts()))) == (pipe, 1, 2)


def test_a_device_is_no_build_event_file(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "history.sqlite", create=True) as store,
        pytest.raises(PlumbError, match="/dev/zero: neither a file nor a pipe"),
    ):
        ingest(Path("/dev/zero"), store)
