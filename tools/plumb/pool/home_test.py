import subprocess
from pathlib import Path

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
