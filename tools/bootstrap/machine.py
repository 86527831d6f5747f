"""What this machine must be and have before anything is fetched."""

import os
import pwd
import re
import shutil
from pathlib import Path

from tools.bootstrap.errors import (
    BAZELISK_HINT,
    NoSpaceError,
    UnsupportedMachineError,
    UnusableFolderError,
)

# Packages, the index and the unpacked files lie side by side for a moment: 0.86 GB in all.
PEAK_BYTES = 1_000_000_000
NEEDED_PROGRAMS = ("apt-get", "apt-config", "dpkg-deb")


def default_home() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/plumbline/bazel`; a relative XDG_CACHE_HOME or HOME is ignored.

    Raises:
        UnusableFolderError: neither is set, and passwd has no entry for the user.
    """
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if not cache.startswith("/"):
        if not home.startswith("/"):
            home = _home_of_user()
        cache = f"{home}/.cache"
    return Path(cache) / "plumbline" / "bazel"


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError as error:
        raise UnusableFolderError(
            f"HOME is no absolute path (seen: '{os.environ.get('HOME', '')}') and user "
            f"{os.getuid()} has no entry in passwd. Set HOME, or XDG_CACHE_HOME."
        ) from error


def require_debian(os_release: Path = Path("/etc/os-release")) -> str:
    """The machine's Debian codename, such as `bookworm`.

    Raises:
        UnsupportedMachineError: not Debian, or apt's or dpkg's programs are missing.
    """
    fields = {}
    if os_release.is_file():
        for line in os_release.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            fields[key] = value.strip().strip('"')
    system = fields.get("PRETTY_NAME") or fields.get("ID") or "an unknown system"
    if fields.get("ID") != "debian":
        raise UnsupportedMachineError(
            f"No Bazel 7 on PATH, and one can only be put together on Debian (this is {system}). "
            f"{BAZELISK_HINT}"
        )
    missing = [name for name in NEEDED_PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UnsupportedMachineError(
            f"No Bazel 7 on PATH, and putting one together needs {', '.join(missing)}, missing "
            f"here. {BAZELISK_HINT}"
        )
    return fields.get("VERSION_CODENAME", "stable")


def require_plain_path(home: Path) -> None:
    """Checks that `home` can stand in rc files, class paths and library paths.

    Raises:
        UnusableFolderError: it holds a blank, a colon, a letter beyond ASCII or the like.
    """
    if not re.fullmatch(r"[\w/.+@%,=~-]+", str(home), flags=re.ASCII):
        raise UnusableFolderError(
            f"The cache folder '{home}' holds a character that Bazel, its rc files or library "
            "paths cannot take. Set XDG_CACHE_HOME to a folder whose path is made of ASCII "
            "letters, digits, '-' and '_'."
        )


def require_space(home: Path, needed: int = PEAK_BYTES) -> None:
    """Checks that the file system of `home` has room for `needed` bytes.

    Raises:
        NoSpaceError: it has not.
    """
    free = shutil.disk_usage(home).free
    if free < needed:
        raise NoSpaceError(
            f"{home} has {free // 1_000_000} MB free, the bootstrap needs {needed // 1_000_000} MB "
            "while it works. Free some, or set XDG_CACHE_HOME to a folder on a larger disk."
        )
