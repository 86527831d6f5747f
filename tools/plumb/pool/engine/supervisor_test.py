import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.plumb.errors import PlumbError
from tools.plumb.pool import home as homes
from tools.plumb.pool.engine.accounts import Accounts
from tools.plumb.pool.engine.parts import Part
from tools.plumb.pool.engine.supervisor import Supervisor
from tools.plumb.pool.home import MARK, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "pool")
    made.logs.mkdir(parents=True)
    return made


def part(home: Home, name: str, script: str, port: int | None = None) -> Part:
    environment = {"PATH": "/usr/bin:/bin", MARK: home.mark(name)}
    return Part(name, "worker", ("/bin/sh", "-c", script), home.folder, environment, port)


def until(supervisor: Supervisor, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, (supervisor.home.logs / "supervisor.log").read_text()
        supervisor.step()
        time.sleep(0.02)


def running(home: Home, *parts: Part) -> Supervisor:
    made = Supervisor(home, parts, Accounts(), {})
    for one in made.running:
        made._bring_up(one)
    return made


def test_a_dead_part_is_started_again_and_said(home: Home) -> None:
    supervisor = running(home, part(home, "one", "exec sleep 1000"))
    try:
        first = supervisor.running[0].process
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)

        until(supervisor, lambda: supervisor.running[0].restarts == 1)

        state = home.read_state()
        assert state is not None
        assert state["parts"][0]["last_end"] == "was killed by SIGKILL"
        assert state["parts"][0]["pid"] not in (None, first.pid)
        log = (home.logs / "supervisor.log").read_text()
        assert "one was killed by SIGKILL; starts again in 0.2 s" in log
    finally:
        supervisor.end()
    assert homes.marked(home) == []


def test_one_that_always_dies_is_started_less_and_less_often(home: Home) -> None:
    supervisor = running(home, part(home, "one", "sleep 1; exit 3"))
    try:
        until(supervisor, lambda: supervisor.running[0].restarts == 3)
    finally:
        supervisor.end()

    log = (home.logs / "supervisor.log").read_text()
    for pause in ("0.2", "0.4", "0.8"):
        assert f"one ended with status 3; starts again in {pause} s" in log


def test_one_that_starts_again_and_never_answers_is_killed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.plumb.pool.engine.supervisor._READY_SECONDS", 0.5)
    with socket.socket() as unheard:
        # Bound and not listening: whoever asks there is refused.
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        supervisor = Supervisor(home, [part(home, "one", "exec sleep 1000", port)], Accounts(), {})
        one = supervisor.running[0]
        supervisor._start(one)
        try:
            until(supervisor, lambda: one.restarts == 1)
        finally:
            supervisor.end()

    assert one.last_end == "was killed by SIGKILL"
    assert (
        "one has not answered for 0 s: it is killed" in (home.logs / "supervisor.log").read_text()
    )


class Fault:
    """A guard that says what it is told to."""

    def __init__(self) -> None:
        self.said, self.mended = "", 0

    def trouble(self) -> str:
        return self.said

    def note_good(self) -> None:
        assert not self.said

    def mend(self) -> int:
        self.mended += 1
        return 7


def test_a_part_is_held_while_its_guard_says_so_and_mended_before_it_starts(home: Home) -> None:
    fault = Fault()
    supervisor = running(home, part(home, "one", "exec sleep 1000"))
    supervisor.guards = {"one": fault}
    one = supervisor.running[0]
    try:
        fault.said = "no room"
        until(supervisor, lambda: one.state == "held")
        supervisor.step()
        assert (one.process, one.last_end, fault.mended) == (None, "was stopped: no room", 0)
        assert homes.marked(home) == []

        fault.said = ""
        until(supervisor, lambda: one.state == "up")

        assert (one.restarts, fault.mended) == (1, 1)
        log = (home.logs / "supervisor.log").read_text()
        assert log.count("one was stopped: no room") == 1
        assert "one starts again; 7 broken files of it removed" in log
    finally:
        supervisor.end()


def test_a_part_that_its_guard_holds_from_the_start_is_named(home: Home) -> None:
    fault = Fault()
    fault.said = "no room"
    made = Supervisor(home, [part(home, "one", "exit")], Accounts(), {}, guards={"one": fault})

    with pytest.raises(PlumbError, match="one cannot start: no room"):
        made.run()


def test_a_state_that_the_disk_does_not_take_is_written_later(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = running(home, part(home, "one", "exec sleep 1000"))
    module = "tools.plumb.pool.engine.supervisor"
    try:
        with monkeypatch.context() as patch:
            full = PlumbError("no space")
            patch.setattr(f"{module}.write_atomically", lambda path, data: _raise(full))
            patch.setattr(Path, "write_text", lambda path, text: _raise(OSError("no space")))
            supervisor.step()
        assert home.read_state() is None

        supervisor.step()

        state = home.read_state()
        assert state is not None and state["parts"][0]["state"] == "up"
    finally:
        supervisor.end()


def _raise(error: Exception) -> None:
    raise error


def test_what_a_dead_part_left_is_killed_before_it_starts_again(home: Home) -> None:
    script = f"setsid sleep 1000 & echo $! > {home.folder}/left; wait"
    supervisor = running(home, part(home, "one", script))
    other = subprocess.Popen(["sleep", "1000"], env={MARK: home.mark("two")})
    try:
        until(supervisor, lambda: (home.folder / "left").is_file())
        until(supervisor, lambda: (home.folder / "left").read_text().endswith("\n"))
        left = int((home.folder / "left").read_text())
        assert left in homes.marked(home, "one")
        process = supervisor.running[0].process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)

        until(supervisor, lambda: supervisor.running[0].restarts == 1)

        assert left not in homes.marked(home, "one")
        assert (
            "and 1 processes that it left were killed" in (home.logs / "supervisor.log").read_text()
        )
        # Another part's is none of its business.
        assert other.poll() is None
    finally:
        supervisor.end()
        other.kill()
        other.wait()


def test_the_end_leaves_no_process_even_of_one_that_will_not_go(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.plumb.pool.engine.supervisor._STOP_SECONDS", 0.5)
    script = (
        f"trap '' TERM; setsid sleep 1000 & touch {home.folder}/ready; while :; do sleep 1; done"
    )
    supervisor = running(home, part(home, "one", script))
    until(supervisor, lambda: (home.folder / "ready").exists())

    supervisor.end()

    assert homes.marked(home) == []
    assert not home.state.exists()


def test_a_part_that_does_not_start_is_named_with_its_last_words(home: Home) -> None:
    supervisor = Supervisor(
        home, [part(home, "one", "echo no such table; exit 1", 9)], Accounts(), {}
    )

    with pytest.raises(PlumbError, match="one ended with status 1 before it was ready: no such"):
        supervisor.run()


def test_a_killed_supervisor_takes_its_parts_with_it(home: Home) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tools.plumb.pool.engine.supervisor_test import part\n"
        "from tools.plumb.pool.engine.supervisor import Supervisor\n"
        "from tools.plumb.pool.engine.accounts import Accounts\n"
        "from tools.plumb.pool.home import Home\n"
        "home = Home(Path(sys.argv[1]))\n"
        "Supervisor(home, [part(home, 'one', 'exec sleep 1000')], Accounts(), {}).run()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(home.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        deadline = time.monotonic() + 60
        while not home.state.exists() or not json.loads(home.state.read_text())["parts"][0]["pid"]:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.wait()
        while homes.marked(home) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert homes.marked(home) == []
    finally:
        process.kill()
        process.wait()
