"""Where a pool keeps what it needs: one folder under the cache, removed safely while it is down."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.plumb import cache
from tools.plumb.errors import ExitCode, PlumbError

# In the environment of each process of a pool, that of tests included.
MARK = "PLUMBLINE_POOL_PART"
# Linux's struct flock: type, whence, start, length, process. Locks of an open file, which another
# descriptor of the same process does not let go of, and which one can look at without taking them.
_LOCK = struct.Struct("@hhqqi0q")
_WHOLE_FILE = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


@dataclass(frozen=True)
class Home:
    """The folder of a pool."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Locked by the supervisor while it lives, and removed by it."""
        return self.folder / "lock"

    @property
    def state(self) -> Path:
        """What the supervisor last said of its parts."""
        return self.folder / "state.json"

    @property
    def plan(self) -> Path:
        """What the supervisor was told to run."""
        return self.folder / "plan.json"

    @property
    def logs(self) -> Path:
        """A file a part."""
        return self.folder / "logs"

    @property
    def keys(self) -> Path:
        """Certificates and secrets; readable by the owner alone."""
        return self.folder / "keys"

    def mark(self, part: str) -> str:
        """What stands in the environment of a part's processes."""
        return f"{self.folder}:{part}"

    def read_state(self) -> dict[str, Any] | None:
        """What was last said; None if nothing was."""
        try:
            found = json.loads(self.state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def supervisor(self) -> int | None:
        """The process that holds the lock; None if none does. 0 while it has not said its number.

        Takes no lock, so that a look is in nobody's way.
        """
        try:
            descriptor = os.open(self.lock, os.O_RDWR)
        except OSError:
            return None
        try:
            seen = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
            if _LOCK.unpack(seen)[0] == fcntl.F_UNLCK:
                return None
            text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            return int(text) if text.isdecimal() else 0
        finally:
            os.close(descriptor)

    def live_state(self) -> dict[str, Any]:
        """What the supervisor that lives said. Raises PlumbError if none does."""
        pid, state = self.supervisor(), self.read_state()
        if pid is None or state is None or state["pid"] != pid:
            raise PlumbError("no pool is up: `plumb pool up` starts one.")
        return state


def default() -> Home:
    """`${XDG_CACHE_HOME:-~/.cache}/plumbline/pool`."""
    return Home(cache.cache_root() / "pool")


@contextmanager
def held(home: Home) -> Iterator[None]:
    """Holds the lock while the context lasts; the kernel lets go of it however the holder ends.

    Raises PlumbError if another process has it.
    """
    descriptor = _locked(home.lock)
    if descriptor is None:
        raise PlumbError(
            f"a pool is up in {home.folder} already: `plumb pool status` shows it, "
            "`plumb pool down` ends it."
        )
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # While it is ours.
        home.lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(file: Path) -> int | None:
    """A descriptor of the file under our lock; None if another has it."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
            # Who had it before may have removed it since, and somebody made another.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), file.stat()):
                    kept, descriptor = descriptor, -1
                    return kept
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return None
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def commanding(home: Home, notify: cache.Notify) -> AbstractContextManager[None]:
    """Lets one `up` or `down` at a time go about the pool; the others wait for their turn."""
    return cache.locked(home.folder / "command.lock", notify, "starts or ends the pool")


def marked(home: Home, part: str | None = None) -> list[int]:
    """Processes of a part, or of the whole pool, that of tests included; not this one."""
    mark = home.mark(part) if part is not None else home.mark("")
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            variables = Path(entry.path, "environ").read_bytes().split(b"\0")
            if any(
                text == wanted or (part is None and text.startswith(wanted)) for text in variables
            ):
                found.append(int(entry.name))
    return found


def no_home(error: OSError) -> PlumbError:
    """What to tell the user of a folder that cannot be made or written."""
    return PlumbError(
        f"{error.filename}: {error.strerror}. The pool keeps its data under XDG_CACHE_HOME or "
        "~/.cache: set XDG_CACHE_HOME to a folder that you can write.",
        ExitCode.ENVIRONMENT,
    )
