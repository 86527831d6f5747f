"""Runs a program as one user who can also read what a second one wrote, and nobody else's files.

Arguments: UID GID SECOND_UID SECOND_GID PROGRAM …, as root, without threads. CAP_DAC_READ_SEARCH
holds for files whose owner the process's user namespace knows (capabilities(7)), and this one knows
these two users alone. Only the standard library is there.
"""

import ctypes
import os
import signal
import struct
import sys
from pathlib import Path

_NEWUSER = 0x10000000
_KEEPCAPS, _PDEATHSIG, _AMBIENT, _RAISE = 8, 1, 47, 2
_READ_SEARCH = 2
_CAPABILITY_VERSION = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        sys.exit(f"no user namespace for the store: {os.strerror(number)}")


def _enter(users: tuple[int, int], groups: tuple[int, int]) -> None:
    """Makes the namespace; a child that stays outside says whom it knows."""
    process = os.getpid()
    waiting, entered = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(entered)
        os.read(waiting, 1)
        try:
            for name, known in (("uid_map", users), ("gid_map", groups)):
                text = "".join(f"{number} {number} 1\n" for number in known)
                Path(f"/proc/{process}", name).write_text(text)
        except OSError:
            os._exit(1)
        os._exit(0)
    _check(_LIBC.unshare(_NEWUSER))
    os.close(entered)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("no user namespace for the store: its users cannot be set")
    os.close(waiting)


def main() -> None:
    """Becomes the program."""
    uid, gid, second, second_gid = map(int, sys.argv[1:5])
    _enter((uid, second), (gid, second_gid))
    _check(_LIBC.prctl(_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    one = 1 << _READ_SEARCH
    sets = struct.pack("6I", one, one, one, 0, 0, 0)
    _check(_LIBC.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), sets))
    _check(_LIBC.prctl(_AMBIENT, _RAISE, _READ_SEARCH, 0, 0))
    # Becoming another user has undone what the supervisor asked for.
    _check(_LIBC.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
