"""Failures that a person can act on: one class and one exit status each."""

BAZELISK_HINT = (
    "Install bazelisk (https://github.com/bazelbuild/bazelisk) or Bazel 7 and put it on PATH; "
    "tools/bazel then uses that one."
)


class BootstrapError(Exception):
    """Something outside this program went wrong; the text says what and what to do next."""

    exit_status = 1


class UnsupportedMachineError(BootstrapError):
    """No Debian, or one of the Debian programs that this needs is missing."""

    exit_status = 10


class NoMirrorError(BootstrapError):
    """The machine's apt sources name no Debian archive that can serve the suite."""

    exit_status = 11


class NoKeyringError(BootstrapError):
    """The keys that sign Debian's archive are not on this machine."""

    exit_status = 12


class MirrorError(BootstrapError):
    """The mirror did not answer, or not with a valid signed index."""

    exit_status = 13


class SuiteMovedError(BootstrapError):
    """The suite carries another major version of Bazel."""

    exit_status = 14


class NoSpaceError(BootstrapError):
    """The cache's file system is full or would become so."""

    exit_status = 15


class DamagedPackageError(BootstrapError):
    """A package's bytes are not those that the signed index promises."""

    exit_status = 16


class BrokenBuildError(BootstrapError):
    """The Bazel that was put together does not run."""

    exit_status = 17


class UnusableFolderError(BootstrapError):
    """The cache folder cannot be made or written, or has a name that Bazel cannot take."""

    exit_status = 18
