"""Whom the parts run as where root starts the pool, and how these reach what they need.

A test is somebody's program: it must be neither root nor the user who keeps the database and the
files. Where root's own folders hold what workers need (its python, its cache), the supervisor
hides these folders in a mount namespace of its own and shows the needed parts alone.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.plumb.errors import ExitCode, PlumbError

_SERVICE = "daemon"
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000


@dataclass(frozen=True)
class Account:
    """A user that a process becomes."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Accounts:
    """Those of the pool's own parts and of the workers; None where the caller is not root."""

    service: Account | None = None
    worker: Account | None = None

    def of(self, user: str) -> Account | None:
        """The account of a part's user, "service" or "worker"; None for "root", the caller."""
        return {"service": self.service, "worker": self.worker}.get(user)


def choose(worker: str) -> Accounts:
    """The accounts of a pool whose tests run as `worker`, which only root can arrange.

    Raises PlumbError if this machine has no such user.
    """
    if os.geteuid() != 0:
        return Accounts()
    has = f"pool.toml: [server] has user = '{worker}'"
    tests, service = _account(worker), _account(_SERVICE)
    if tests is None:
        raise PlumbError(
            f"{has}, whom this machine does not know: name another, such as 'nobody', or add it."
        )
    if service is None:
        raise PlumbError(
            f"the pool's own parts run as '{_SERVICE}', whom this machine does not know: add that "
            "user, or start the pool as another user than root.",
            ExitCode.ENVIRONMENT,
        )
    if tests.uid in (0, service.uid):
        could = "do anything here" if tests.uid == 0 else "write the pool's own files"
        raise PlumbError(
            f"{has}: a test could {could}. Name an unprivileged user, such as 'nobody'."
        )
    return Accounts(service, tests)


def _account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid)


def closed_folder(path: Path, account: Account) -> Path | None:
    """The first folder above `path` that `account` cannot pass; None if it can reach it."""
    for folder in [*reversed(path.parents)]:
        try:
            found = folder.stat()
        except OSError:
            return folder
        owner = found.st_uid == account.uid
        group = found.st_gid == account.gid
        bit = stat.S_IXUSR if owner else stat.S_IXGRP if group else stat.S_IXOTH
        if not found.st_mode & bit:
            return folder
    return None


def make_reachable(paths: Sequence[Path], accounts: Accounts) -> None:
    """Shows `paths` to the pool's users, by a mount namespace if folders of root's hide them.

    Raises PlumbError naming the folder in the way where this machine allows no such namespace.
    """
    users = [user for user in (accounts.service, accounts.worker) if user is not None]
    closed: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(paths):
        folder = next(filter(None, (closed_folder(path, user) for user in users)), None)
        if folder is not None:
            closed.setdefault(folder, []).append(path)
    if not closed:
        return
    try:
        _unshare()
        for folder, inside in closed.items():
            _show_only(folder, inside)
    except OSError as error:
        folder, inside = next(iter(closed.items()))
        raise PlumbError(
            f"{inside[0]} lies in {folder}, which user '{users[0].name}' cannot enter, and this "
            f"machine allows no mount namespace ({error.strerror}). Start the pool as another "
            "user than root, or with XDG_CACHE_HOME and a python3 that every user can reach.",
            ExitCode.ENVIRONMENT,
        ) from error


def _show_only(folder: Path, inside: Iterable[Path]) -> None:
    """Puts an empty folder in place of `folder`, and in it `inside` at their own paths."""
    kept = [(path, os.open(path, os.O_PATH)) for path in _outermost(inside)]
    folders = [path.is_dir() for path, _ in kept]
    _mount("tmpfs", str(folder), "tmpfs", 0, "mode=755,size=1m")
    for (path, descriptor), is_folder in zip(kept, folders, strict=True):
        if is_folder:
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        _mount(f"/proc/self/fd/{descriptor}", str(path), "", _MS_BIND | _MS_REC)
        os.close(descriptor)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    every = sorted(paths, key=lambda path: len(path.parts))
    chosen: list[Path] = []
    for path in every:
        if not any(path.is_relative_to(other) for other in chosen):
            chosen.append(path)
    return chosen


def _unshare() -> None:
    if _libc().unshare(_CLONE_NEWNS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # What is mounted here stays here.
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [text.encode() for text in (source, target, kind)]
    if _libc().mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
