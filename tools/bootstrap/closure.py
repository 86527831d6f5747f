"""Chooses the packages: what `apt-get --print-uris` says, with the rest declared installed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from tools.bootstrap import pypi
from tools.bootstrap.errors import BAZELISK_HINT, MirrorError, SuiteMovedError

BAZEL_PACKAGE = "bazel-bootstrap"
BAZEL_MAJOR = 7
WANTED = (BAZEL_PACKAGE, "openjdk-21-jre-headless", "patchelf", *pypi.PACKAGES)

# Told to apt as already installed, so that it leaves them and all that only they need out of the
# closure. Bazel's packages depend on them for compiling C++ and Java and for Debian's own builds;
# a machine that compiles brings its compiler, and nothing here runs Java but Bazel itself.
ASSUMED_INSTALLED = (
    "build-essential",
    "ca-certificates",
    "ca-certificates-java",
    "debconf",
    "default-jdk-headless",
    "default-jre-headless",
    "dpkg",
    "java-common",
    "libjs-jquery",
    "libsystemd0",
    "node-core-js",
    "openssl",
    "openssl-provider-legacy",
    "perl",
    "perl-base",
    "python3",
    "tar",
    "unzip",
    "util-linux",
    "zlib1g-dev",
)


@dataclass(frozen=True)
class Package:
    """One file to fetch: its name in apt's archive folder, its size in bytes, its SHA-256."""

    uri: str
    filename: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The package's name, such as `libc6`."""
        return self.filename.partition("_")[0]

    @property
    def version(self) -> str:
        """Debian's version string, without the file name's escapes (`1%3a4.1` is `1:4.1`)."""
        return unquote(self.filename.split("_")[1])


def dpkg_status(assumed: Iterable[str] = ASSUMED_INSTALLED) -> str:
    """A dpkg status file in which exactly `assumed` are installed, at a version that suits all."""
    return "".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: all\nMulti-Arch: allowed\n"
        "Maintainer: nobody <nobody@localhost>\nVersion: 999:0\nDescription: assumed\n\n"
        for name in assumed
    )


def parse_print_uris(text: str) -> list[Package]:
    """Parses the lines `'URI' FILE SIZE SHA256:HEX` of `apt-get --print-uris`.

    Raises:
        MirrorError: a line carries no SHA-256, so the package could not be checked.
    """
    packages = []
    for line in text.splitlines():
        match = re.fullmatch(r"'(\S+)' (\S+_\S+_\S+\.deb) (\d+) (\S+)", line.strip())
        if not match:
            continue
        uri, filename, size, digest = match.groups()
        if not re.fullmatch(r"SHA256:[0-9a-f]{64}", digest):
            raise MirrorError(
                f"The mirror's index gives no SHA-256 for {filename} (seen: {digest}), so it "
                "cannot be checked. Use a mirror with a complete index."
            )
        packages.append(Package(uri, filename, int(size), digest.removeprefix("SHA256:")))
    return packages


def bazel_version(packages: Iterable[Package]) -> str:
    """Bazel's own version, such as `7.7.1`, from the package's `7.7.1+ds-8+b1`.

    Raises:
        SuiteMovedError: the suite has another major version, or none that can be read.
    """
    for package in packages:
        if package.name == BAZEL_PACKAGE:
            return require_major(package.version, f"the suite's package {package.filename}")
    raise SuiteMovedError(f"The suite has no package {BAZEL_PACKAGE}. {BAZELISK_HINT}")


def require_major(text: str, origin: str) -> str:
    """The first `X.Y.Z` in `text`.

    Raises:
        SuiteMovedError: X is not the major version that this repository is written for.
    """
    match = re.search(r"(\d+)\.\d+(?:\.\d+)?", text)
    if not match or int(match[1]) != BAZEL_MAJOR:
        found = match[0] if match else repr(text)
        raise SuiteMovedError(
            f"Found Bazel {found} ({origin}), wanted {BAZEL_MAJOR}.x: the suite has moved on. "
            f"{BAZELISK_HINT}"
        )
    return match[0]
