"""Keeps the parts of a pool running: starts them in order, restarts what dies and says so."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.plumb.cache import write_atomically
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.pool import home as homes
from tools.plumb.pool.engine.accounts import Accounts
from tools.plumb.pool.engine.parts import Part, is_ready
from tools.plumb.pool.engine.running import FIRST_PAUSE, Guard, Running, ending, started
from tools.plumb.pool.home import Home

_TICK_SECONDS = 0.1
_READY_SECONDS = 90.0
# How long a part has to end in order before it is killed.
_STOP_SECONDS = 10.0
# A part that lived so long starts again at once if it dies.
_GOOD_LIFE_SECONDS = 60.0
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """Runs `parts` in `home` as `accounts`, until it is told to stop.

    about: further fields of the state file. after: what has to be done once a part of that name
    runs and before the next one starts; it is given a function that tells whether it still runs.
    guards: who says when a part of that name must not run.
    """

    def __init__(
        self,
        home: Home,
        parts: Sequence[Part],
        accounts: Accounts,
        about: dict[str, Any],
        after: dict[str, Callable[[Callable[[], bool]], None]] | None = None,
        guards: Mapping[str, Guard] | None = None,
    ) -> None:
        self.home, self.accounts, self.about = home, accounts, about
        self.running = [Running(part) for part in parts]
        self.after = after or {}
        self.guards = guards or {}
        # The process with which the pool ends; None for none.
        self.client: int | None = None
        self.stopping = False
        self._said = ""
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self) -> None:
        """Starts everything, then keeps it running until SIGTERM or SIGINT; ends all parts.

        Raises PlumbError if a part does not become ready the first time.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        try:
            for one in self.running:
                self._bring_up(one)
                if self.stopping:
                    return
            self.say("up: " + ", ".join(one.part.name for one in self.running))
            self._write_state("up")
            while not self.stopping and self._is_wanted():
                self.step()
                time.sleep(_TICK_SECONDS)
        finally:
            self.end()

    def _is_wanted(self) -> bool:
        return self.client is None or Path(f"/proc/{self.client}").exists()

    def step(self) -> None:
        """Looks at every part once."""
        for one in self.running:
            self._look(one)
        self._reap()
        self._write_state("up")

    def say(self, text: str) -> None:
        """Writes a line to the supervisor's log, if the disk takes one."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        with (
            suppress(OSError),
            (self.home.logs / "supervisor.log").open("a", encoding="utf-8") as log,
        ):
            log.write(f"{stamp} {text}\n")

    def _stop(self, number: int, frame: object) -> None:
        self.stopping = True

    def _bring_up(self, one: Running) -> None:
        part = one.part
        trouble = self.guards[part.name].trouble() if part.name in self.guards else ""
        if trouble:
            raise PlumbError(f"{part.name} cannot start: {trouble}.", ExitCode.ENVIRONMENT)
        self._start(one)
        deadline = time.monotonic() + _READY_SECONDS
        while not self.stopping:
            if one.process is None or one.process.poll() is not None:
                end = one.last_end if one.process is None else ending(one.process.returncode)
                raise PlumbError(
                    f"{part.name} {end} before it was ready: {self._last_words(part)}",
                    ExitCode.ENVIRONMENT,
                )
            if is_ready(part):
                break
            if time.monotonic() > deadline:
                raise PlumbError(
                    f"{part.name} was not ready after {_READY_SECONDS:.0f} s; see `plumb pool "
                    f"logs {part.name}`.",
                    ExitCode.ENVIRONMENT,
                )
            time.sleep(_TICK_SECONDS / 2)
        one.state = "up"
        if part.name in self.after and not self.stopping:
            self.after[part.name](lambda: one.process is not None and one.process.poll() is None)

    def _last_words(self, part: Part) -> str:
        log = self.home.logs / f"{part.name}.log"
        words = log.read_bytes()[-600:].decode(errors="replace").strip() if log.exists() else ""
        return words or "it said nothing"

    def _look(self, one: Running) -> None:
        now = time.monotonic()
        guard = self.guards.get(one.part.name)
        trouble = guard.trouble() if guard is not None else ""
        if trouble:
            self._hold(one, trouble)
        elif one.process is not None and one.process.poll() is not None:
            self._mourn(one, now)
        elif one.process is None and now >= one.again_at:
            if one.state == "held" and guard is not None:
                self.say(f"{one.part.name} starts again; {guard.mend()} broken files of it removed")
            one.restarts += 1
            self._start(one)
        else:
            if guard is not None:
                guard.note_good()
            if one.state == "starting":
                self._look_at_start(one, now)

    def _look_at_start(self, one: Running, now: float) -> None:
        if is_ready(one.part):
            one.state = "up"
            self.say(f"{one.part.name} is up again")
        elif now - one.since > _READY_SECONDS:
            # What hangs may not hear of an orderly end; `_mourn` starts it again.
            self.say(f"{one.part.name} has not answered for {_READY_SECONDS:.0f} s: it is killed")
            assert one.process is not None
            with suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)

    def _hold(self, one: Running, trouble: str) -> None:
        if one.state == "held":
            return
        if one.process is not None:
            # At once: in order, it would go on with what it is writing.
            with suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()
        one.process, one.state, one.again_at = None, "held", 0.0
        one.last_end = f"was stopped: {trouble}"
        self.say(f"{one.part.name} {one.last_end}")

    def _mourn(self, one: Running, now: float) -> None:
        assert one.process is not None
        one.last_end = ending(one.process.returncode)
        one.process = None
        # What a dead worker left must not run on beside the same test on another.
        left = self._kill_marked(one.part.name)
        if now - one.since > _GOOD_LIFE_SECONDS:
            one.pause = FIRST_PAUSE
        others = f", and {left} processes that it left were killed" if left else ""
        pause = one.wait_longer(now)
        self.say(f"{one.part.name} {one.last_end}{others}; starts again in {pause:g} s")

    def _start(self, one: Running) -> None:
        part = one.part
        try:
            one.process = started(
                part, self.accounts.of(part.user), self.home.logs / f"{part.name}.log"
            )
        except OSError as error:
            end = f"cannot be started ({error.strerror})"
            if one.last_end != end:
                one.last_end = end
                self.say(f"{part.name} {end}: {part.command[0]}")
            one.wait_longer(time.monotonic())
            return
        one.since = time.monotonic()
        one.state = "up" if part.port is None else "starting"

    def _reap(self) -> None:
        """Collects what was orphaned below us; our own parts are waited for by themselves."""
        known = {one.process.pid for one in self.running if one.process is not None}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in known:
                return
            with suppress(ChildProcessError):
                os.waitpid(found.si_pid, 0)

    def end(self) -> None:
        """Ends all parts, last started first, and whatever they left."""
        self._write_state("stopping")
        workers = [one for one in self.running if one.part.kind == "worker"]
        others = [one for one in reversed(self.running) if one.part.kind != "worker"]
        for group in (workers, *([one] for one in others)):
            self._end_group(group)
        self._kill_marked(None)
        self.say("down")
        with suppress(OSError):
            self.home.state.unlink()

    def _end_group(self, group: Sequence[Running]) -> None:
        alive = [one for one in group if one.process is not None and one.process.poll() is None]
        for one in alive:
            assert one.process is not None
            with suppress(ProcessLookupError):
                os.kill(one.process.pid, signal.Signals[one.part.stop])
        deadline = time.monotonic() + _STOP_SECONDS
        for one in alive:
            assert one.process is not None
            try:
                one.process.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(one.process.pid, signal.SIGKILL)
                one.process.wait()

    def _kill_marked(self, part: str | None) -> int:
        count = 0
        # Twice, as one may fork between the look and the kill.
        for _ in range(3):
            found = homes.marked(self.home, part)
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            count += len(found)
            if not found:
                break
            time.sleep(0.02)
        return count

    def _write_state(self, state: str) -> None:
        fields = {
            **self.about,
            "pid": os.getpid(),
            "state": state,
            "parts": [one.fields() for one in self.running],
        }
        text = json.dumps(fields, indent=1)
        if text == self._said:
            return
        try:
            write_atomically(self.home.state, text.encode())
        except PlumbError:
            # On a full disk only the room that the last one has is left; said again once there is
            # more, and parts are watched on in any case.
            with suppress(OSError):
                self.home.state.write_text(text)
        else:
            self._said = text
