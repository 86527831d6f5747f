"""Times one test that imports torch, as Bazel runs it, beside a bare python that imports it.

tools/bazel run //testing/perf/start -- --remote grpc://127.0.0.1:PORT
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from testing.perf.start.figures import Figures, Run, heading, seconds_of_test

_TEST = "//testing/perf/start:torch_test"
_SANDBOXED_GOAL, _REMOTE_GOAL = 1.5, 2.2
_FIRST_GOAL = 30.0
_OF_BAZEL_RUN = ("PYTHONSAFEPATH", "RUNFILES_DIR", "RUNFILES_MANIFEST_FILE")


class MeasurementError(Exception):
    """A run that measures nothing; the message is for the user."""


def bare() -> float:
    """Seconds of `python -c 'import torch'`, byte-code and files in memory as for the tests."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - start


def bazel(checkout: Path, strategy: str, flags: Sequence[str]) -> tuple[float, float]:
    """Runs the test once; seconds of the whole command, and of the test.

    Raises MeasurementError if the test failed, was cached, or ran by another strategy.
    """
    env = {k: v for k, v in os.environ.items() if k not in (*_OF_BAZEL_RUN, "PYTHONPATH")}
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.json"
        command = [str(checkout / "tools/bazel"), "test", "--nocache_test_results"]
        command += [f"--build_event_json_file={events}", "--noshow_progress", *flags, _TEST]
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=checkout, env=env, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            said = (done.stdout + done.stderr)[-3000:]
            raise MeasurementError(f"{' '.join(command)}\n{said}")
        try:
            inner, seen = seconds_of_test(events.read_text().splitlines())
        except ValueError as error:
            raise MeasurementError(f"{' '.join(command)}: {error}") from error
    if seen != strategy:
        raise MeasurementError(f"the test ran by '{seen}', wanted '{strategy}'")
    return seconds, inner


def in_turn(rounds: int, run: Callable[[], tuple[float, float]]) -> list[Run]:
    """Times `run` and a bare python in turn, after one of each that is not counted."""
    bare()
    run()
    runs = []
    for _ in range(rounds):
        alone = bare()
        command, test = run()
        runs.append(Run(bare=alone, command=command, test=test))
    return runs


def first(checkout: Path, flags: Sequence[str]) -> float:
    """Seconds of a worker's first test: one that finds no wheel unpacked."""
    # A worker may have a /tmp of its own.
    folder = Path(f"/var/tmp/plumbline-first-{os.getpid()}")
    try:
        fresh = f"--test_env=PLUMBLINE_WHEELS={folder}"
        return bazel(checkout, "remote", [*flags, fresh])[0]
    finally:
        # The worker's user may be another, whose folder only root can remove.
        subprocess.run(["chmod", "-R", "u+w", folder], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bazel run //testing/perf/start --", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=7, help="pairs timed (default: 7)")
    parser.add_argument(
        "--remote", metavar="GRPC", help="a pool's address, of `plumb pool status`, to be timed too"
    )
    parser.add_argument(
        "--flag", action="append", default=[], help="a further flag for the remote runs"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Prints a table; returns 0 if each goal is met, 1 if one is missed, 2 if a run failed."""
    arguments = _arguments(argv)
    checkout = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    remote = ["--config=remote", f"--remote_executor={arguments.remote}", *arguments.flag]
    met = True
    try:
        print(heading(), flush=True)
        ways = [("linux-sandbox", _SANDBOXED_GOAL, ["--strategy=TestRunner=linux-sandbox"])]
        ways += [("remote", _REMOTE_GOAL, remote)] if arguments.remote else []
        for strategy, goal, flags in ways:
            runs = in_turn(arguments.rounds, partial(bazel, checkout, strategy, flags))
            figures = Figures(strategy, goal, runs)
            met &= figures.ratio <= goal
            print(figures.row(), flush=True)
        if arguments.remote:
            seconds = first(checkout, remote)
            met &= seconds < _FIRST_GOAL
            print(f"\nThe first torch test of a worker that has no wheel unpacked: {seconds:.1f} s")
    except MeasurementError as error:
        print(f"start: {error}", file=sys.stderr)
        return 2
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
