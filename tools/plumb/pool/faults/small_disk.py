"""A small file system for one test, without root's rights where the kernel gives namespaces."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_REC, _PRIVATE = 0x4000, 0x40000
_DETACH = 2


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """`folder` lies on a file system of that size while the context lasts.

    This process and those that it starts alone see it, in a mount namespace that they stay in.
    Skips, naming what is missing, where this machine allows none.
    """
    try:
        _enter_namespace()
        _check(_libc().mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={megabytes}m".encode()))
    except OSError as error:
        pytest.skip(f"a small file system needs a user and a mount namespace: {error.strerror}")
    folder.chmod(0o755)
    try:
        yield
    finally:
        _libc().umount2(bytes(folder), _DETACH)


def fill(folder: Path) -> Path:
    """Takes all room of the file system of `folder`; returns the file that has it."""
    filler = folder / "filler"
    found = os.statvfs(folder)
    with filler.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, found.f_bavail * found.f_frsize)
    return filler


def _enter_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _check(_libc().unshare(_NEWNS))
    else:
        _check(_libc().unshare(_NEWNS | _NEWUSER))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path("/proc/self", name).write_text(text)
    # What is mounted here stays here.
    _check(_libc().mount(b"none", b"/", None, _REC | _PRIVATE, None))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
