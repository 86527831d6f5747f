"""The one error type that the command line shows as a sentence, and its exit codes.

The codes are Bazel's own where Bazel has one for the case, and the shell's for a closed pipe;
UNMAPPED is plumb's.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What `plumb` returns to the shell."""

    OK = 0
    BUILD_FAILED = 1
    USAGE = 2
    TESTS_FAILED = 3
    GRAPH_FAILED = 7
    INTERRUPTED = 8
    UNMAPPED = 9
    ENVIRONMENT = 36
    READER_GONE = 141


class Terminated(KeyboardInterrupt):
    """SIGTERM, such as a CI system sends for a cancelled job: cleaned up after like Ctrl-C."""


class PlumbError(Exception):
    """A mistake or a missing thing that the user can act on; shown without a traceback."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code
