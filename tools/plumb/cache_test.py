from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from tools.plumb import cache
from tools.plumb.errors import ExitCode, PlumbError


def test_the_root_follows_xdg_cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache.cache_root() == tmp_path / "plumbline"
    assert cache.folder_for(Path("/a")) != cache.folder_for(Path("/b"))


def test_a_relative_xdg_cache_home_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cache.cache_root() == tmp_path / ".cache" / "plumbline"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PlumbError, match="file/below") as error:
        cache.make_folder(tmp_path / "file" / "below")
    assert error.value.code is ExitCode.ENVIRONMENT


def test_a_write_leaves_nothing_else_behind(tmp_path: Path) -> None:
    cache.write_atomically(tmp_path / "new" / "f", b"one")
    cache.write_atomically(tmp_path / "new" / "f", b"two")

    assert [(p.name, p.read_bytes()) for p in (tmp_path / "new").iterdir()] == [("f", b"two")]


def test_a_held_lock_is_waited_for_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    other = FileLock(tmp_path / "lock", thread_local=False)
    other.acquire()

    def notify(text: str) -> None:
        said.append(text)
        other.release()

    with cache.locked(tmp_path / "lock", notify, "reads a graph"):
        pass
    assert len(said) == 1 and "reads a graph" in said[0]


def test_scratch_folders_go_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), cache.scratch_folder(tmp_path / "s") as folder:
        (folder / "f").touch()
        raise KeyboardInterrupt
    assert list((tmp_path / "s").iterdir()) == []


def test_scratch_folders_of_killed_runs_go_when_they_are_old(tmp_path: Path) -> None:
    (tmp_path / "dead" / "objects").mkdir(parents=True)
    os.utime(tmp_path / "dead", (1000, 1000))
    (tmp_path / "alive").mkdir()

    with cache.scratch_folder(tmp_path) as folder:
        assert {p.name for p in tmp_path.iterdir()} == {"alive", folder.name}


def test_keeps_the_newest_and_what_is_young(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old", "older"]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "young").touch()

    cache.keep_newest(tmp_path, 2)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "young"]


def test_files_go_oldest_first_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old", "older"]):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))

    cache.keep_within(tmp_path, 20)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "old"]
    cache.keep_within(tmp_path, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["new"]
