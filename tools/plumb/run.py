"""Runs affected tests with Bazel, pool by pool, on the pools that this machine can stand in for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.plumb import bazel, interrupt
from tools.plumb.answer.report import by_pool
from tools.plumb.answer.words import counted
from tools.plumb.cache import Notify
from tools.plumb.compare.affected import Affected, Comparison
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.graph import canonical
from tools.plumb.pool_options import test_options
from tools.plumb.pools import CPU, PER_COMMIT

_OWN_CODES = {0: ExitCode.OK, 3: ExitCode.TESTS_FAILED, 8: ExitCode.INTERRUPTED}

# How Bazel's TestStatus names what passed, and what it did not come to.
_PASSED = ("PASSED", "FLAKY")
_UNFINISHED = ("NO_STATUS", "INCOMPLETE")
# Named targets are all taken, also of a pool that this machine is not.
_EVERY_TARGET = ("--build_tag_filters=", "--skip_incompatible_explicit_targets")


@dataclass(frozen=True)
class Ran:
    """A pool's tests in Bazel. passed, failed: labels; what Bazel did not come to is in neither."""

    tests: int
    bazel_exit: int
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """ran: pool to what Bazel did there; left: pool to labels not run here.

    waiting: cadence to labels that this run leaves to the one of that cadence.
    analysed: number of targets that Bazel only analysed, and its exit code; None if none were.
    """

    ran: dict[str, Ran] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    analysed: tuple[int, int] | None = None

    @property
    def code(self) -> ExitCode:
        """What `plumb` returns: the first pool's trouble, a failed build before failed tests."""
        exits = [ran.bazel_exit for ran in self.ran.values()]
        exits += [self.analysed[1]] if self.analysed else []
        codes = {_OWN_CODES.get(code, ExitCode.BUILD_FAILED) for code in exits}
        for worst in (ExitCode.INTERRUPTED, ExitCode.BUILD_FAILED, ExitCode.TESTS_FAILED):
            if worst in codes:
                return worst
        return ExitCode.OK

    def fields(self) -> dict[str, Any]:
        """The outcome as it stands in the JSON."""
        ran = {pool: vars(done) for pool, done in self.ran.items()}
        analysed = None
        if self.analysed is not None:
            analysed = {"targets": self.analysed[0], "bazel_exit": self.analysed[1]}
        return {"ran": ran, "left": self.left, "waiting": self.waiting, "analysed": analysed}


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
    named: Sequence[str] | None = None,
    cadence: str = PER_COMMIT,
) -> Outcome:
    """Runs what this machine can in `place`; Bazel's own output goes to stderr.

    configs: what the workspace's .bazelrc defines; a pool's own config is used if it is there.
    named: configs to use instead, for every pool. cadence: whose tests run, or ALL.
    """
    here, elsewhere = split([t for t in comparison.tests if t.placement.runs_at(cadence)], gpus)
    outcome = Outcome(left={pool: [t.label for t in group] for pool, group in elsewhere.items()})
    for test in comparison.tests:
        if not test.placement.runs_at(cadence):
            outcome.waiting.setdefault(test.placement.cadence or PER_COMMIT, []).append(test.label)
    users = comparison.access.users
    if not here and not users:
        return outcome
    entry = place.bazel()
    if users:
        notify(
            f"analysing what uses targets of another visibility, {counted(len(users), 'target')}"
        )
        arguments = ["build", "--nobuild", "--keep_going", *_EVERY_TARGET]
        code = _bazel(entry, arguments, users, place.workspace).bazel_exit
        outcome.analysed = (len(users), code)
        if code == ExitCode.INTERRUPTED:
            return outcome
    for pool, group in here.items():
        notify(f"running {counted(len(group), 'test')} of pool {pool}")
        options = pool_options(pool, group, gpus, configs, named)
        labels = [test.label for test in group]
        ran = _bazel(entry, ["test", *options], labels, place.workspace)
        outcome.ran[pool] = ran
        if ran.bazel_exit == ExitCode.INTERRUPTED:
            break
    return outcome


def pool_options(
    pool: str,
    tests: list[Affected],
    gpus: dict[str, int],
    configs: Collection[str],
    named: Sequence[str] | None = None,
) -> list[str]:
    """Options of `bazel test` for tests of one pool; the tests are named one by one already."""
    rare = any(not test.placement.runs_at(PER_COMMIT) for test in tests)
    cards = 0 if pool == CPU else gpus.get(tests[0].placement.arch or "", 1)
    return test_options(pool, cards, configs, named, rare=rare)


def _bazel(entry: bazel.Bazel, arguments: list[str], labels: list[str], workspace: Path) -> Ran:
    with tempfile.TemporaryDirectory(prefix="plumb-") as scratch:
        events = Path(scratch) / "events.json"
        command = entry.command(
            *arguments,
            f"--build_event_json_file={events}",
            *_patterns(labels, Path(scratch) / "targets"),
        )
        try:
            code = _wait(command, workspace)
        except OSError as error:
            raise PlumbError(
                f"cannot run {entry.entry}: {error.strerror}.", ExitCode.ENVIRONMENT
            ) from error
        passed, failed = _results(events)
        return Ran(len(labels), code, passed, failed)


def _patterns(labels: list[str], file: Path) -> list[str]:
    """How to name the labels to Bazel."""
    if any("#" in label for label in labels):
        # A file of patterns would take what follows for a comment.
        return ["--", *labels]
    # A command line cannot hold thousands of labels.
    file.write_text("".join(f"{label}\n" for label in labels))
    return [f"--target_pattern_file={file}"]


def _results(events: Path) -> tuple[list[str], list[str]]:
    """Labels that passed and that failed, both sorted, by Bazel's own account of the run.

    It may be missing or end in the middle, if Bazel did.
    """
    results = {}
    lines = events.read_bytes().splitlines() if events.is_file() else []
    for line in lines:
        with suppress(ValueError):
            event = json.loads(line)
            if "testSummary" in event:
                label = canonical(event["id"]["testSummary"]["label"])
                results[label] = event["testSummary"].get("overallStatus", "NO_STATUS")
    passed = sorted(label for label, status in results.items() if status in _PASSED)
    return passed, sorted(results.keys() - {*passed, *_unfinished(results)})


def _unfinished(results: dict[str, str]) -> set[str]:
    return {label for label, status in results.items() if status in _UNFINISHED}


def _wait(command: list[str], workspace: Path) -> int:
    interrupt.check()
    # stdout is kept for the answer, which another program may read.
    process = subprocess.Popen(
        command,
        cwd=workspace,
        env=bazel.environment(),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_descriptor() else None,
    )
    return interrupt.wait(process)


def _has_descriptor() -> bool:
    try:
        os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return True
