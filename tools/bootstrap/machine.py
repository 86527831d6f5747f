"""What this machine must be and have before anything is fetched."""

import os
import re
import shutil
from pathlib import Path

from tools.bootstrap.errors import (
    BAZELISK_HINT,
    BootstrapError,
    NoSpaceError,
    UnsupportedMachineError,
)

# Packages, the index and the unpacked files lie side by side for a moment: 0.86 GB in all.
PEAK_BYTES = 1_000_000_000
NEEDED_PROGRAMS = ("apt-get", "apt-config", "dpkg-deb")


def default_home() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/plumbline/bazel`; a relative XDG_CACHE_HOME is ignored."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "plumbline" / "bazel"


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
        BootstrapError: it holds a blank, a colon or the like.
    """
    if not re.fullmatch(r"[\w/.+@%,=~-]+", str(home)):
        raise BootstrapError(
            f"The cache folder '{home}' holds a character that Bazel's rc files or library paths "
            "cannot take. Set XDG_CACHE_HOME to a folder without blanks and colons."
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
