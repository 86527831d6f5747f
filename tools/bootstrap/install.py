"""Fetches, checks, unpacks and installs: from an empty cache to a Bazel that runs."""

import errno
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap import apt, apt_sources, closure
from tools.bootstrap.errors import (
    BAZELISK_HINT,
    BootstrapError,
    BrokenBuildError,
    DamagedPackageError,
    MirrorError,
    NoSpaceError,
    UnsupportedMachineError,
)
from tools.bootstrap.lock import exclusive
from tools.bootstrap.prefix import RC_NAME, PrefixBuilder
from tools.bootstrap.progress import Progress

# Packages, their unpacked files and the suite's index lie side by side until the end.
PEAK_BYTES = 1_000_000_000
_NEEDED_PROGRAMS = ("apt-get", "apt-config", "dpkg-deb")


@dataclass(frozen=True)
class Layout:
    """Where things lie in the cache folder `home`."""

    home: Path

    @property
    def current(self) -> Path:
        """The link to the prefix in use, the last thing to be made."""
        return self.home / "current"

    @property
    def work(self) -> Path:
        """What an interrupted run left, good packages included; gone after success."""
        return self.home / "work"

    @property
    def lock(self) -> Path:
        return self.home / "lock"

    def prefix(self, version: str) -> Path:
        return self.home / version


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
    missing = [name for name in _NEEDED_PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UnsupportedMachineError(
            f"No Bazel 7 on PATH, and putting one together needs {', '.join(missing)}, missing "
            f"here. {BAZELISK_HINT}"
        )
    return fields.get("VERSION_CODENAME", "stable")


def require_space(home: Path, needed: int = PEAK_BYTES) -> None:
    """Raises NoSpaceError if `home`'s file system has fewer than `needed` bytes free."""
    free = shutil.disk_usage(home).free
    if free < needed:
        raise NoSpaceError(
            f"{home} has {free // 1_000_000} MB free, the bootstrap needs {needed // 1_000_000} MB "
            "while it works. Free some, or set XDG_CACHE_HOME to a folder on a larger disk."
        )


@contextmanager
def _full_disk_explained(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise NoSpaceError(
            f"{home}'s file system is full. Free {PEAK_BYTES // 1_000_000} MB, or set "
            "XDG_CACHE_HOME to a folder on a larger disk, then try again."
        ) from error


def check_package(path: Path, package: closure.Package) -> None:
    """Compares the file with the signed index; a wrong one is deleted, so that it is fetched anew.

    Raises:
        DamagedPackageError: size or SHA-256 differ.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != package.sha256:
        path.unlink()
        raise DamagedPackageError(
            f"{package.filename} has SHA-256 {digest}, the signed index says {package.sha256}. "
            "The file was deleted: try again to fetch it anew."
        )


def unpack(path: Path, root: Path) -> None:
    """Unpacks one package's files below `root`; none of its scripts is run."""
    result = subprocess.run(
        ["dpkg-deb", "--extract", path, root], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        if "No space left" in result.stderr:
            raise OSError(errno.ENOSPC, result.stderr)
        raise DamagedPackageError(f"dpkg-deb could not unpack {path.name}: {result.stderr.strip()}")


def run_version(prefix: Path) -> str:
    """What the Bazel in `prefix` calls itself.

    Raises:
        BrokenBuildError: it does not start.
        SuiteMovedError: it is another major version.
    """
    program = prefix / "usr/bin/bazel"
    try:
        result = subprocess.run(
            [program, f"--bazelrc={prefix / RC_NAME}", "--version"],
            capture_output=True, text=True, check=False, cwd=prefix,
        )
    except OSError as error:
        raise BrokenBuildError(f"{program} does not start: {error.strerror}.") from error
    if result.returncode != 0:
        raise BrokenBuildError(f"{program} --version failed: {result.stderr.strip()[-500:]}")
    return closure.require_major(result.stdout, f"{program} --version")


def point(link: Path, target: str) -> None:
    """Makes `link` point to `target` in one step: readers see the old one or the new one."""
    fresh = link.with_name(link.name + ".new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    os.replace(fresh, link)


def remove(tree: Path) -> None:
    """Deletes `tree` if it is there, read-only folders in it too."""
    if tree.exists():
        for folder, _, _ in os.walk(tree):
            Path(folder).chmod(0o755)
        shutil.rmtree(tree)


class Bootstrap:
    """One run: see `install`."""

    def __init__(self, layout: Layout, suite: str, progress: Progress) -> None:
        self.layout, self.suite, self.progress = layout, suite, progress

    def install(self, force: bool = False) -> Path:
        """Returns the prefix in use, after making it if there is none.

        Args:
            force: make it anew from the suite as it is now.
        """
        home = self.layout.home
        with _full_disk_explained(home):
            home.mkdir(parents=True, exist_ok=True)
            with exclusive(self.layout.lock, self.progress.note):
                if not force and (self.layout.current / RC_NAME).is_file():
                    return self.layout.current.resolve()
                return self._install()

    def _install(self) -> Path:
        codename = require_debian()
        keyring = apt.find_keyring()
        require_space(self.layout.home)
        mirrors = apt_sources.archive_mirrors(apt_sources.read_sources(), codename)
        self.progress.note(
            f"No Bazel 7 found: putting one together from Debian {self.suite} (once, about a minute)."
        )
        private = self._first_that_answers(mirrors, keyring)
        packages = private.closure(closure.WANTED)
        version = closure.bazel_version(packages)
        self._download(private, packages)
        unpacked = self._unpack(private.archives, packages)
        prefix = self._build(unpacked, version)
        remove(self.layout.work)
        return prefix

    def _first_that_answers(self, mirrors: Sequence[str], keyring: Path) -> apt.PrivateApt:
        failures: list[BootstrapError] = []
        for number, mirror in enumerate(mirrors):
            private = apt.PrivateApt(self.layout.work / f"apt{number}", mirror, self.suite, keyring)
            self.progress.start("Index")
            try:
                private.update(self.progress.update)
            except BootstrapError as error:
                failures.append(error)
                continue
            self.progress.finish()
            return private
        if len(failures) == 1:
            raise failures[0]
        raise MirrorError("\n".join(str(error) for error in failures))

    def _download(self, private: apt.PrivateApt, packages: Sequence[closure.Package]) -> None:
        total = sum(package.size for package in packages)
        self.progress.start(f"Download {len(packages)} packages", total, "MB")
        private.download(closure.WANTED, lambda: self.progress.update(private.fetched_bytes()))
        self.progress.finish()

    def _unpack(self, archives: Path, packages: Sequence[closure.Package]) -> Path:
        root = self.layout.work / "unpacked"
        remove(root)
        root.mkdir()
        self.progress.start("Check and unpack", sum(package.size for package in packages), "MB")

        def one(package: closure.Package) -> int:
            path = archives / package.filename
            check_package(path, package)
            unpack(path, root)
            return package.size

        done = 0
        largest_first = sorted(packages, key=lambda package: -package.size)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for size in pool.map(one, largest_first):
                done += size
                self.progress.update(done)
        self.progress.finish()
        return root

    def _build(self, unpacked: Path, version: str) -> Path:
        self.progress.start(f"Assemble Bazel {version}")
        staged, prefix = self.layout.work / "staged", self.layout.prefix(version)
        remove(staged)
        staged.mkdir()
        PrefixBuilder(unpacked, staged, prefix).build()
        # Only `current` counts for readers, so a prefix of this name without it is half-made.
        remove(prefix)
        os.rename(staged, prefix)
        run_version(prefix)
        point(self.layout.current, prefix.name)
        self.progress.finish()
        return prefix
