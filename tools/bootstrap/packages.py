"""Checks package files against the signed index and unpacks them."""

import errno
import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.bootstrap.closure import Package
from tools.bootstrap.errors import DamagedPackageError, MirrorError


def find(archives: Path, package: Package) -> Path:
    """The package's file: in `archives`, or in a `file:` mirror, from which apt copies nothing.

    Raises:
        MirrorError: it is not there.
    """
    path = archives / package.filename
    if not path.exists() and package.uri.startswith("file:"):
        path = Path(unquote(urlsplit(package.uri).path))
    if not os.access(path, os.R_OK):
        raise MirrorError(
            f"There is no {package.filename} to read at {path}, after fetching {package.uri}. Use "
            "another mirror, of scheme http or https."
        )
    return path


def check(path: Path, package: Package, fetched: bool = True) -> None:
    """Compares the file with the signed index.

    Args:
        path: the file.
        package: what the index says of it.
        fetched: a wrong one is deleted, so that it is fetched anew; one of a mirror must not be.

    Raises:
        DamagedPackageError: the SHA-256 differs.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest == package.sha256:
        return
    next_step = f"{path} is a mirror's. Bring the mirror up to date."
    if fetched:
        path.unlink()
        next_step = "The file was deleted: try again to fetch it anew."
    raise DamagedPackageError(
        f"{package.filename} has SHA-256 {digest}, the signed index says {package.sha256}. "
        f"{next_step}"
    )


def unpack(path: Path, root: Path) -> None:
    """Unpacks one package's files below `root`; none of its scripts is run.

    Raises:
        DamagedPackageError: dpkg-deb cannot read it.
        OSError: with ENOSPC, the disk is full.
    """
    command = ["dpkg-deb", "--extract", str(path), str(root)]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode == 0:
        return
    if os.strerror(errno.ENOSPC) in result.stderr:
        raise OSError(errno.ENOSPC, result.stderr.strip())
    raise DamagedPackageError(f"dpkg-deb could not unpack {path.name}: {result.stderr.strip()}")


def unpack_all(
    archives: Path, packages: Sequence[Package], root: Path, on_bytes: Callable[[int], None]
) -> None:
    """Checks and unpacks `packages` on all cores, largest first.

    Args:
        archives: the folder of their files.
        packages: what to unpack.
        root: an existing folder.
        on_bytes: called with the bytes of packages done so far.
    """

    def one(package: Package) -> int:
        path = find(archives, package)
        check(path, package, fetched=path.parent == archives)
        unpack(path, root)
        return package.size

    done = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for size in pool.map(one, sorted(packages, key=lambda package: -package.size)):
                done += size
                on_bytes(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
