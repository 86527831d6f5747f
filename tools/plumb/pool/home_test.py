import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.pool import home as homes
from tools.plumb.pool.home import MARK, Home


def test_the_lock_names_its_holder_and_goes_with_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.supervisor() is None

    with homes.held(home):
        holder = home.supervisor()
        with pytest.raises(PlumbError, match="a pool is up in"), homes.held(home):
            pass

    assert holder is not None
    assert home.supervisor() is None
    assert not home.lock.exists()


def test_a_lock_that_a_killed_process_left_is_no_ones(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.lock.write_text("4194304\n")

    assert home.supervisor() is None
    with homes.held(home):
        pass


def test_a_look_at_the_lock_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.lock.write_text("4194304\n")
    closes = os.close
    seen: list[int | None] = []

    def within(descriptor: int) -> None:
        # While one looks, another looks and a supervisor starts.
        monkeypatch.setattr(os, "close", closes)
        seen.append(home.supervisor())
        with homes.held(home):
            seen.append(home.supervisor())
        closes(descriptor)

    monkeypatch.setattr(os, "close", within)
    assert home.supervisor() is None
    assert seen == [None, os.getpid()]


def test_a_lock_that_was_removed_while_one_took_it_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    opens = os.open

    def late(*arguments: Any) -> int:
        monkeypatch.setattr(os, "open", opens)
        descriptor = opens(*arguments)
        # A supervisor that ends between our opening the file and our locking it.
        home.lock.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", late)
    with homes.held(home):
        assert home.supervisor() == os.getpid()
        with pytest.raises(PlumbError, match="a pool is up in"), homes.held(home):
            pass


def test_a_state_of_a_supervisor_that_lives_no_more_is_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.state.write_text(json.dumps({"pid": os.getpid()}))
    with pytest.raises(PlumbError, match="no pool is up"):
        home.live_state()

    with homes.held(home):
        assert home.live_state() == {"pid": os.getpid()}
        # Of one that was killed before.
        home.state.write_text(json.dumps({"pid": 4194304}))
        with pytest.raises(PlumbError, match="no pool is up"):
            home.live_state()


def test_a_process_is_known_by_its_mark(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "a"), Home(tmp_path / "ab")
    process = subprocess.Popen(["sleep", "1000"], env={MARK: home.mark("one")})
    try:
        while process.pid not in homes.marked(home):
            assert process.poll() is None
        assert homes.marked(home, "one") == [process.pid]
        assert homes.marked(home, "on") == []
        assert homes.marked(other) == []
    finally:
        process.kill()
        process.wait()


def test_a_state_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.read_state() is None
    home.state.write_text("{")
    assert home.read_state() is None
