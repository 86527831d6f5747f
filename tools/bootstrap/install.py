"""The whole way from an empty cache to a Bazel, or another product, that runs."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap import apt, apt_sources, closure, machine, packages
from tools.bootstrap.errors import (
    BootstrapError,
    BrokenBuildError,
    MirrorError,
    NoSpaceError,
    SuiteMovedError,
    UnusableFolderError,
)
from tools.bootstrap.lock import exclusive
from tools.bootstrap.prefix import RC_NAME, PrefixBuilder, rc_belongs_to
from tools.bootstrap.progress import Progress


@dataclass(frozen=True)
class Layout:
    """Where things lie in the cache folder `home`; a finished prefix is named by its version."""

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
        """The file that a running bootstrap holds locked."""
        return self.home / "lock"

    def is_ready(self) -> bool:
        """Whether `current` leads to a prefix that was made for this place."""
        return rc_belongs_to(self.current / RC_NAME, self.home)


@contextmanager
def explained(home: Path) -> Iterator[None]:
    """Turns a full disk and a folder that cannot be written into errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(
                f"The file system of {home} is full. Free {machine.PEAK_BYTES // 1_000_000} MB, or "
                "set XDG_CACHE_HOME to a folder on a larger disk, then try again."
            ) from error
        # A folder on the way to the cache that cannot be made gives other errors, as ENOENT.
        on_the_way = error.filename and Path(error.filename) in (home, *home.parents)
        if on_the_way or error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UnusableFolderError(
                f"{error.filename or home} cannot be written ({error.strerror}). Set "
                "XDG_CACHE_HOME to a folder of yours."
            ) from error
        raise


def run_version(prefix: Path) -> str:
    """The version that the Bazel in `prefix` reports, such as `7.7.1`.

    Raises:
        BrokenBuildError: it does not start.
        SuiteMovedError: it is another major version.
    """
    program = prefix / "usr/bin/bazel"
    command = [str(program), f"--bazelrc={prefix / RC_NAME}", "--version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=prefix)
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
    fresh.replace(link)


def remove(tree: Path) -> None:
    """Deletes `tree` if it is there, folders without write permission in it too."""
    if tree.exists():
        for folder, _, _ in os.walk(tree):
            Path(folder).chmod(0o755)
        shutil.rmtree(tree)


@dataclass(frozen=True)
class Product:
    """What is made of packages.

    Attributes:
        name: what the user is told that it is.
        wanted: packages to fetch, with all that they need.
        version: of the chosen packages; names the prefix. Raises SuiteMovedError.
        build: fills the empty folder `staged` from `unpacked`, for use at `final`.
        run: starts what was built; raises BrokenBuildError.
        is_ready: whether a layout holds one that was made for its place.
    """

    name: str
    wanted: tuple[str, ...]
    version: Callable[[Sequence[closure.Package]], str]
    build: Callable[[Path, Path, Path], None]
    run: Callable[[Path], object]
    is_ready: Callable[[Layout], bool]


BAZEL = Product(
    name="Bazel",
    wanted=closure.WANTED,
    version=closure.bazel_version,
    build=lambda unpacked, staged, final: PrefixBuilder(unpacked, staged, final).build(),
    run=run_version,
    is_ready=Layout.is_ready,
)


class Bootstrap:
    """Makes a prefix of `product` in `layout` from `suite`, telling `progress` about it."""

    def __init__(
        self, layout: Layout, suite: str, progress: Progress, product: Product = BAZEL
    ) -> None:
        self.layout, self.suite, self.progress = layout, suite, progress
        self.product = product

    def install(self, force: bool = False) -> Path:
        """Returns the prefix in use, after making it if there is none.

        Args:
            force: make it anew from the suite as it is now.
        """
        home = self.layout.home
        machine.require_plain_path(home)
        with explained(home):
            home.mkdir(parents=True, exist_ok=True)
            with exclusive(self.layout.lock, self.progress.note):
                if force or not self.product.is_ready(self.layout):
                    self._make()
        return self.layout.current.resolve()

    def _make(self) -> None:
        codename = machine.require_debian()
        keyring = apt.find_keyring()
        mirrors = apt_sources.archive_mirrors(apt_sources.read_sources(), codename)
        machine.require_space(self.layout.home)
        self.progress.note(
            f"No {self.product.name} here yet: making one from Debian {self.suite}, once."
        )
        private = self._first_that_answers(mirrors, keyring)
        chosen = private.closure(self.product.wanted)
        try:
            version = self.product.version(chosen)
        except SuiteMovedError:
            remove(self.layout.work)
            raise
        self._download(private, chosen)
        unpacked = self._unpack(private.archives, chosen)
        self._assemble(unpacked, version)
        remove(self.layout.work)

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

    def _download(self, private: apt.PrivateApt, chosen: Sequence[closure.Package]) -> None:
        total = sum(package.size for package in chosen)
        self.progress.start(f"Download {len(chosen)} packages", total, "MB")
        private.download(self.product.wanted, lambda: self.progress.update(private.fetched_bytes()))
        self.progress.finish()

    def _unpack(self, archives: Path, chosen: Sequence[closure.Package]) -> Path:
        root = self.layout.work / "unpacked"
        remove(root)
        root.mkdir()
        total = sum(package.size for package in chosen)
        self.progress.start("Check and unpack", total, "MB")
        packages.unpack_all(archives, chosen, root, self.progress.update)
        self.progress.finish()
        return root

    def _assemble(self, unpacked: Path, version: str) -> None:
        self.progress.start(f"Assemble {self.product.name} {version}")
        staged, prefix = self.layout.work / "staged", self.layout.home / version
        remove(staged)
        staged.mkdir()
        self.product.build(unpacked, staged, prefix)
        # `current` is what counts: until it is set, a prefix of this name is an unfinished one.
        remove(prefix)
        staged.rename(prefix)
        self.product.run(prefix)
        point(self.layout.current, prefix.name)
        self.progress.finish()
