"""Runs affected tests with Bazel, pool by pool, on the pools that this machine can stand in for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.plumb import bazel
from tools.plumb.affected import Affected, Comparison
from tools.plumb.cache import Notify
from tools.plumb.errors import ExitCode, PlumbError, Terminated
from tools.plumb.pools import CPU
from tools.plumb.report import by_pool

_OWN_CODES = {0: ExitCode.OK, 3: ExitCode.TESTS_FAILED, 8: ExitCode.INTERRUPTED}

# Named targets are all taken, also of a pool that this machine is not.
_EVERY_TARGET = ("--build_tag_filters=", "--skip_incompatible_explicit_targets")


@dataclass
class Outcome:
    """ran: pool to (number of tests, Bazel's exit code); left: pool to labels not run here.

    analysed: number of targets that Bazel only analysed, and its exit code; None if none were.
    """

    ran: dict[str, tuple[int, int]] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    analysed: tuple[int, int] | None = None

    @property
    def code(self) -> ExitCode:
        """What `plumb` returns: the first pool's trouble, a failed build before failed tests."""
        runs = [*self.ran.values(), *([self.analysed] if self.analysed else [])]
        codes = {_OWN_CODES.get(code, ExitCode.BUILD_FAILED) for _, code in runs}
        for worst in (ExitCode.INTERRUPTED, ExitCode.BUILD_FAILED, ExitCode.TESTS_FAILED):
            if worst in codes:
                return worst
        return ExitCode.OK

    def fields(self) -> dict[str, Any]:
        """The outcome as it stands in the JSON."""
        ran = {pool: {"tests": n, "bazel_exit": code} for pool, (n, code) in self.ran.items()}
        analysed = None
        if self.analysed is not None:
            analysed = {"targets": self.analysed[0], "bazel_exit": self.analysed[1]}
        return {"ran": ran, "left": self.left, "analysed": analysed}


def split(
    tests: list[Affected], gpus: dict[str, int]
) -> tuple[dict[str, list[Affected]], dict[str, list[Affected]]]:
    """The tests that this machine can run and those it cannot, both by pool.

    gpus: architecture to the number of its cards here.
    """
    here: dict[str, list[Affected]] = {}
    elsewhere: dict[str, list[Affected]] = {}
    for pool, members in by_pool(tests).items():
        for test in members:
            place = test.placement
            fits = pool == CPU or 0 < place.gpus <= gpus.get(place.arch or "", 0)
            (here if fits else elsewhere).setdefault(pool, []).append(test)
    return here, elsewhere


def run(
    comparison: Comparison,
    gpus: dict[str, int],
    place: bazel.Place,
    configs: Collection[str],
    notify: Notify,
) -> Outcome:
    """Runs what this machine can in `place`; Bazel's own output goes to stderr.

    configs: what the workspace's .bazelrc defines; a pool's own config is used if it is there.
    """
    here, elsewhere = split(comparison.tests, gpus)
    outcome = Outcome(left={pool: [t.label for t in group] for pool, group in elsewhere.items()})
    users = comparison.access.users
    if not here and not users:
        return outcome
    entry = place.bazel()
    if users:
        notify(f"analysing {len(users)} targets that use what has another visibility")
        arguments = ["build", "--nobuild", "--keep_going", *_EVERY_TARGET]
        code = _bazel(entry, arguments, users, place.workspace)
        outcome.analysed = (len(users), code)
        if code == ExitCode.INTERRUPTED:
            return outcome
    for pool, group in here.items():
        notify(f"running {len(group)} tests of pool {pool}")
        options = pool_options(pool, group, gpus, configs)
        labels = [test.label for test in group]
        code = _bazel(entry, ["test", *options], labels, place.workspace)
        outcome.ran[pool] = (len(group), code)
        if code == ExitCode.INTERRUPTED:
            break
    return outcome


def pool_options(
    pool: str, tests: list[Affected], gpus: dict[str, int], configs: Collection[str]
) -> list[str]:
    """Options of `bazel test` for tests of one pool; the tests are named one by one already."""
    if pool == CPU:
        return []
    cards = gpus.get(tests[0].placement.arch or "", 1)
    # The config's filters would leave out tests that take several GPUs.
    return [
        *([f"--config={pool}"] if pool in configs else []),
        "--build_tag_filters=",
        "--test_tag_filters=",
        f"--local_resources=gpu={cards}",
    ]


def _bazel(entry: bazel.Bazel, arguments: list[str], labels: list[str], workspace: Path) -> int:
    # A file, since a command line cannot hold thousands of labels.
    with tempfile.NamedTemporaryFile("w", suffix=".targets", delete=False) as patterns:
        patterns.write("".join(f"{label}\n" for label in labels))
    try:
        command = entry.command(*arguments, f"--target_pattern_file={patterns.name}")
        return _wait(command, workspace)
    except OSError as error:
        raise PlumbError(
            f"cannot run {entry.entry}: {error.strerror}.", ExitCode.ENVIRONMENT
        ) from error
    finally:
        Path(patterns.name).unlink(missing_ok=True)


def _wait(command: list[str], workspace: Path) -> int:
    # stdout is kept for the answer, which another program may read.
    process = subprocess.Popen(
        command,
        cwd=workspace,
        env=bazel.environment(),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_descriptor() else None,
    )
    while True:
        try:
            return process.wait()
        except Terminated:
            # Sent to us alone; Bazel ends its tests and then itself.
            process.terminate()
        except KeyboardInterrupt:
            # The terminal sent the interrupt to Bazel too, which ends its tests and then itself.
            continue


def _has_descriptor() -> bool:
    try:
        os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return True
