"""A pool of its own with a small Bazel workspace, for tests that break one of its parts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.plumb.pool import home as homes
from tools.plumb.pool.engine import programs
from tools.plumb.pool.home import Home

# Each run of a test is a line of its notes; the slot's name says whether it ran where it belongs.
CHECK = """\
#!/bin/sh
pool=$1 seconds=${2:-0}
echo "start $TEST_TARGET $PLUMBLINE_SLOT" >> "$NOTES/runs"
case "$PLUMBLINE_SLOT" in
"$pool"-*) ;;
*) echo "wrong $TEST_TARGET $PLUMBLINE_SLOT" >> "$NOTES/runs"; exit 1 ;;
esac
[ "$seconds" = 0 ] || sleep "$seconds"
echo "end $TEST_TARGET $PLUMBLINE_SLOT" >> "$NOTES/runs"
"""
# Up to the process that has this one's worker for its name.
KILLER = """\
#!/bin/sh
echo "start $TEST_TARGET $PLUMBLINE_SLOT" >> "$NOTES/runs"
pid=$$
while [ "$pid" -gt 1 ]; do
  read -r name < "/proc/$pid/comm"
  case "$name" in buildbox-worker) kill -9 "$pid"; sleep 60 ;; esac
  pid=$(sed 's/.*) . //; s/ .*//' "/proc/$pid/stat")
done
exit 1
"""
RC = """\
common --noenable_bzlmod
build:remote --remote_default_exec_properties=Pool=cpu
"""
_WAIT_SECONDS = 90.0


@dataclass
class RealPool:
    """A pool's folder, its workspace and how to reach both."""

    folder: Path
    port: int
    bazel: Path
    environment: dict[str, str]

    @property
    def home(self) -> Home:
        """Of the pool, in a cache of its own."""
        return Home(self.folder / "cache/plumbline/pool")

    @property
    def workspace(self) -> Path:
        """The small workspace."""
        return self.folder / "workspace"

    @property
    def notes(self) -> list[str]:
        """What the tests wrote as they ran."""
        file = self.folder / "notes/runs"
        return file.read_text().splitlines() if file.exists() else []

    def forget(self) -> None:
        """Empties the notes."""
        (self.folder / "notes/runs").write_text("")
        (self.folder / "notes/runs").chmod(0o666)

    def write(self, build: str, **files: str) -> None:
        """Writes the workspace's one BUILD file, and others by their names."""
        (self.workspace / "BUILD").write_text(build)
        for name, text in files.items():
            (self.workspace / name).write_text(text)

    def plumb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `plumb pool …` in the workspace."""
        return subprocess.run(
            [sys.executable, "-m", "tools.plumb", "pool", *arguments],
            cwd=self.workspace,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def configure(self, text: str) -> Path:
        """Writes pool.toml with this pool's port and the notes' folder in each slot."""
        file = self.folder / "pool.toml"
        file.write_text(text.replace("FOLDER", f'"{self.folder}/notes"'))
        return file

    def up(self, text: str) -> None:
        """Starts the pool of a pool.toml."""
        done = self.plumb(
            "up", "--config", str(self.configure(text)), f"--with-process={os.getpid()}"
        )
        assert done.returncode == 0, done.stderr + self.log("supervisor")

    def log(self, part: str) -> str:
        """What a part said."""
        file = self.home.logs / f"{part}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def part(self, name: str) -> dict[str, Any]:
        """A part as the state names it."""
        state = self.home.read_state()
        assert state is not None
        return next(one for one in state["parts"] if one["name"] == name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kills a part, and waits until it is up again under another process."""
        before = self.part(name)["pid"]
        os.kill(before, number)
        self.wait(
            lambda: self.part(name)["state"] == "up" and self.part(name)["pid"] != before,
            f"{name} to be started again",
        )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for something, a minute and a half at most."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.notes}"
            time.sleep(0.05)

    def test(self, *words: str) -> Outcome:
        """Runs `bazel test` to its end."""
        with self.testing(*words) as running:
            return running.outcome()

    @contextmanager
    def testing(self, *words: str) -> Iterator[Running]:
        """`bazel test` while the context lasts; ended with it."""
        events = self.folder / f"events-{time.monotonic_ns()}.json"
        log = events.with_suffix(".log")
        options = [
            f"--remote_executor=grpc://127.0.0.1:{self.port}",
            "--remote_default_exec_properties=Pool=cpu",
            *("--remote_max_connections=2", "--remote_retries=10", "--jobs=64"),
            # A result that is there already would show nothing.
            *("--noremote_accept_cached", "--cache_test_results=no"),
            *("--curses=no", "--noshow_progress", "--incompatible_strict_action_env"),
            f"--build_event_json_file={events}",
        ]
        with log.open("w") as stream:
            process = subprocess.Popen(
                [self.bazel, "test", *options, *words],
                cwd=self.workspace,
                env=self.environment,
                stdout=stream,
                stderr=stream,
            )
        try:
            yield Running(process, events, log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)


@dataclass(frozen=True)
class Outcome:
    """Bazel's exit code, what each test came to, its own words, and the seconds that it took."""

    code: int
    statuses: Mapping[str, str]
    text: str
    seconds: float


class Running:
    """A `bazel test` that is at work."""

    def __init__(self, process: subprocess.Popen[bytes], events: Path, log: Path) -> None:
        self.process, self.events, self.log = process, events, log
        self.started = time.monotonic()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for something that happens while Bazel runs."""
        while not condition():
            ended = self.process.poll() is not None
            late = time.monotonic() - self.started > _WAIT_SECONDS
            assert not ended and not late, f"no {what}: {self.log.read_text()[-3000:]}"
            time.sleep(0.05)

    def outcome(self) -> Outcome:
        """Waits for the end, five minutes at most."""
        code = self.process.wait(600)
        statuses = {}
        for line in self.events.read_text().splitlines():
            event = json.loads(line)
            if "testSummary" in event:
                label = event["id"]["testSummary"]["label"]
                statuses[label] = event["testSummary"]["overallStatus"]
        return Outcome(code, statuses, self.log.read_text(), time.monotonic() - self.started)


@contextmanager
def real_pool(
    disk: Callable[[Path], AbstractContextManager[None]] = lambda folder: nullcontext(),
) -> Iterator[RealPool]:
    """A folder for a pool and a workspace; what was started in it ends with the context.

    disk: makes the file system of the pool's cache, for as long as the context lasts.
    """
    buildbox = programs.buildbox(lambda text: None)
    # Bazel's timeout: what was started still has to end.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("terminated"))
    # Not below TEST_TMPDIR: workers of another user could not enter that.
    with TemporaryDirectory(dir="/var/tmp", prefix="plumb-pool-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = RealPool(folder, free_ports(), _entry(folder), _environment(folder, buildbox))
        for part in ("cache", "notes", "workspace"):
            (folder / part).mkdir()
        (folder / "notes").chmod(0o777)
        made.forget()
        made.write("", WORKSPACE='workspace(name = "small")\n', **{"check.sh": CHECK})
        made.write("", **{"killer.sh": KILLER, ".bazelrc": RC})
        for script in ("check.sh", "killer.sh"):
            (made.workspace / script).chmod(0o755)
        subprocess.run(["git", "init", "--quiet", made.workspace], check=True)
        with disk(folder / "cache"):
            try:
                yield made
            finally:
                _end(made)


def _end(made: RealPool) -> None:
    made.plumb("down")
    subprocess.run([made.bazel, "shutdown"], cwd=made.workspace, capture_output=True, check=False)
    left = homes.marked(made.home)
    assert not left, f"the pool left processes {left}"
    assert not made.home.lock.exists()


def free_ports() -> int:
    """The first of four ports of the loopback that nobody listens at."""
    for start in range(20_000 + 4 * (os.getpid() % 2_000), 32_000, 4):
        if all(_is_free(start + offset) for offset in range(4)):
            return start
    raise AssertionError("no four free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _environment(folder: Path, buildbox: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEST_", "BUILD_W", "RUNFILES", "BAZEL_TEST"))
    }
    return {
        **kept,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PATH": f"{buildbox}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PLUMBLINE_BAZEL": str(folder / "bazel"),
    }


def _entry(folder: Path) -> Path:
    """A Bazel with servers of its own; its entry finds itself in the user's cache."""
    entry = Path(__file__).resolve().parents[3] / "bazel"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    wrapper = folder / "bazel"
    wrapper.write_text(
        f"#!/bin/sh\nXDG_CACHE_HOME='{cache}' exec '{entry}' "
        f"--output_user_root='{folder}/servers' --max_idle_secs=600 \"$@\"\n"
    )
    wrapper.chmod(0o755)
    return wrapper
