import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import home as homes
from tools.plumb.pool import lifecycle
from tools.plumb.pool.config import PoolConfig, Server
from tools.plumb.pool.engine import programs
from tools.plumb.pool.engine.parts import Programs
from tools.plumb.pool.home import Home


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def quiet(text: str) -> None:
    pass


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_a_port_that_another_has_is_named(tmp_path: Path, taken: int, offset: int) -> None:
    config = PoolConfig(Server(port=taken - offset), ())

    with pytest.raises(PlumbError, match=r"port \d+ of 127\.0\.0\.1 cannot be had"):
        lifecycle.up(Home(tmp_path), config, quiet)


def test_security_without_keys_says_how_to_make_them(tmp_path: Path) -> None:
    config = PoolConfig(Server(security="tls"), ())

    with pytest.raises(PlumbError, match=r"needs authority\.crt, .* `plumb pool keys HOST`"):
        lifecycle.up(Home(tmp_path), config, quiet)


def test_an_unknown_user_is_a_mistake_of_the_file_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(PlumbError, match=r"\[server\] has user = 'no-such-user'") as raised:
        lifecycle.up(Home(tmp_path), PoolConfig(Server(user="no-such-user"), ()), quiet)

    assert raised.value.code is ExitCode.USAGE
    assert [file.name for file in tmp_path.iterdir()] == ["command.lock"]


def test_a_second_pool_of_one_home_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)

    with homes.held(home), pytest.raises(PlumbError, match="a pool is up in"):
        lifecycle.up(home, PoolConfig(Server(), ()), quiet)


# Slow to start, as python is: it looks like something that was left until it holds the lock.
SUPERVISOR = """
import json, os, sys, time
from pathlib import Path
from tools.plumb.pool import home as homes
home = homes.Home(Path(sys.argv[1]))
(home.folder / "started").write_text("")
while not (home.folder / "go").exists():
    time.sleep(0.01)
with homes.held(home):
    home.state.write_text(json.dumps({"state": "up", "pid": os.getpid()}))
    time.sleep(1000)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Of a pool whose supervisor goes on once the file "go" is there; it ends with the test."""
    made = Home(tmp_path)
    found = Programs(Path("/buildbox"), Path("/postgres"), Path(sys.executable), ())
    monkeypatch.setattr(programs, "find", lambda notify: found)
    monkeypatch.setattr(lifecycle, "_require_free", lambda server: None)
    monkeypatch.setattr(lifecycle, "_SUPERVISOR", ("-c", SUPERVISOR))
    yield made
    for pid in homes.marked(made):
        os.kill(pid, signal.SIGKILL)


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_that_start_at_a_time_leave_one_pool_up(home: Home) -> None:
    config, waits = PoolConfig(Server(), ()), threading.Event()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(lifecycle.up, home, config, quiet)
        wait((home.folder / "started").exists)
        started = homes.marked(home)
        second = threads.submit(lifecycle.up, home, config, lambda text: waits.set())
        # Without its turn to wait for, it would kill the first one's.
        waits.wait(60)
        (home.folder / "go").write_text("")

        assert [first.result(60)["pid"]] == started == homes.marked(home)
        with pytest.raises(PlumbError, match="a pool is up in"):
            second.result(60)

    assert lifecycle.down(home, quiet)
    assert homes.marked(home) == []
    assert not home.lock.exists()


def test_an_end_waits_for_a_start_and_takes_no_ones_lock(home: Home) -> None:
    config, waits = PoolConfig(Server(), ()), threading.Event()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(lifecycle.up, home, config, quiet)
        wait((home.folder / "started").exists)
        ended = threads.submit(lifecycle.down, home, lambda text: waits.set())
        waits.wait(60)
        (home.folder / "go").write_text("")

        assert first.result(60)["state"] == "up"
        assert ended.result(60)

    assert homes.marked(home) == []


def test_a_process_that_is_no_supervisor_is_not_signalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This process holds the lock, as one would that got a dead supervisor's number.
    monkeypatch.setattr(lifecycle, "_DOWN_SECONDS", 0.2)
    monkeypatch.setattr(lifecycle, "_KILL_SECONDS", 0.2)
    monkeypatch.setattr(os, "kill", lambda pid, number: pytest.fail(f"{pid} got {number}"))
    home = Home(tmp_path)

    with homes.held(home):
        with pytest.raises(PlumbError, match=f"process {os.getpid()} holds"):
            lifecycle.down(home, quiet)
        assert home.supervisor() == os.getpid()


def test_where_none_is_up_none_ends(tmp_path: Path) -> None:
    assert not lifecycle.down(Home(tmp_path), quiet)
    assert not lifecycle.down(Home(tmp_path / "none"), quiet)


def test_a_tokens_name_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(PlumbError, match="wanted letters, digits"):
        lifecycle.make_keys(Home(tmp_path), [], "../alice", "plumbline", 1)


@pytest.mark.parametrize("name", ["", " ", "a..b", "build.example,other", "-x", "http://a", "ü.de"])
def test_a_name_that_is_no_hosts_gets_no_certificate(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlumbError, match="is no host name or IP address"):
        lifecycle.make_keys(Home(tmp_path), ["build.example", name], None, "plumbline", 1)

    assert [*tmp_path.iterdir()] == []


def test_a_new_authority_is_said_to_whom_has_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"reason": "the former lacked extensions"}
    monkeypatch.setattr(lifecycle, "_run_keys", lambda what: said["reason"])
    names = ["build.example", "192.0.2.7", "::1", "a_b-c"]

    lines = lifecycle.make_keys(Home(tmp_path), names, None, "plumbline", 1)
    assert any("clients need its certificate again: the former lacked" in line for line in lines)

    said["reason"] = ""
    lines = lifecycle.make_keys(Home(tmp_path), names, None, "plumbline", 1)
    assert not any("authority is new" in line for line in lines)
