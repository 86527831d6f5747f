"""A part of the pool as it runs: its process, and what became of the ones before."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tools.plumb.pool.engine.accounts import Account
from tools.plumb.pool.engine.parts import Part

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
_KEPT_LOG_BYTES = 20_000_000
_PR_SET_PDEATHSIG = 1


class Guard(Protocol):
    """Says when a part must not run."""

    def trouble(self) -> str:
        """Why it must not, for a person; empty where it may."""

    def note_good(self) -> None:
        """Hears that the part runs, and that there was no trouble."""

    def mend(self) -> int:
        """Removes what the trouble left, before the part starts again; the number of files."""


@dataclass
class Running:
    """A part and its process.

    state: "starting", "up", "waiting" (to be started again), "held" (by its guard).
    """

    part: Part
    process: subprocess.Popen[bytes] | None = None
    state: str = "waiting"
    restarts: int = 0
    pause: float = FIRST_PAUSE
    since: float = 0.0
    again_at: float = 0.0
    last_end: str = ""

    def fields(self) -> dict[str, Any]:
        """As it stands in the state file."""
        slot = self.part.slot
        return {
            "name": self.part.name,
            "kind": self.part.kind,
            "pid": self.process.pid if self.process is not None else None,
            "state": self.state,
            "restarts": self.restarts,
            "last_end": self.last_end,
            "pool": slot.pool if slot else None,
            "gpu": slot.gpu if slot else None,
            "simulated": bool(slot and slot.simulated),
        }

    def wait_longer(self, now: float) -> float:
        """Puts the next start off, and returns by how many seconds."""
        self.state, self.again_at, pause = "waiting", now + self.pause, self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
        return pause


def started(part: Part, account: Account | None, log: Path) -> subprocess.Popen[bytes]:
    """The part's process, whose words go to `log`. Raises OSError, which the log names as well."""
    with suppress(OSError):
        if log.stat().st_size > _KEPT_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as stream:
        try:
            return subprocess.Popen(
                part.command,
                cwd=part.folder,
                env=part.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                user=None if account is None else account.uid,
                group=None if account is None else account.gid,
                extra_groups=None if account is None else [],
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            stream.write(f"{part.command[0]}: {error.strerror}\n".encode())
            raise


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _die_with_parent() -> None:
    # Not even a killed supervisor leaves its parts running.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
