"""Runs smokes many times with other problems each time, and keeps what they saw.

    python -m testing.e2e.smokes.repeat --runs 50 --output /tmp/runs.json

Each run is a process of its own with its own seed, in the environment that Bazel's targets have.
Ends with 1 if any failed. With --record the ratios of latencies are added to ratios.json, where
smokes read their bounds from, and are held against no bound: one that cut off what is beyond it
would be tighter each time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from testing.e2e.smokes.figures import RATIOS, RECORDING
from testing.harness.device import pool

TESTS = {
    "gpt_oss_mxfp4_smoke": "testing/e2e/gpt_oss_mxfp4_smoke_test.py",
    "latency": "testing/perf/serving/latency_test.py",
    "mla_int8_mtp_smoke": "testing/e2e/mla_int8_mtp_smoke_test.py",
    "offline_throughput": "testing/perf/serving/offline_throughput_test.py",
    "tokenizer_workers_smoke": "testing/e2e/tokenizer_workers_smoke_test.py",
}
RATIOS_OF = {
    "latency": ("seconds_over_bare_loop",),
    "offline_throughput": ("seconds_over_bare_loop",),
    "tokenizer_workers_smoke": ("inter_token", "time_to_first_token"),
}
_FIRST_SEED = 5000
# As testing/private/pool_test.bzl has it.
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run_once(name: str, seed: int, *, recording: bool = False) -> dict[str, Any]:
    """One run: {"seed", "passed", "seconds", "seen", "bounds", "said" where it failed}."""
    with tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {"PLUMBLINE_SEED": str(seed), "TEST_UNDECLARED_OUTPUTS_DIR": folder}
        environ |= _THREADS | ({RECORDING: "1"} if recording else {})
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS[name]]
        began = time.monotonic()
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        found: dict[str, Any] = {
            "seed": seed,
            "passed": done.returncode == 0,
            "seconds": round(time.monotonic() - began, 1),
        }
        stats = Path(folder) / "stats.jsonl"
        if stats.exists():
            entry = json.loads(stats.read_text().splitlines()[-1])
            found |= {"seen": entry["seen"], "bounds": entry["bounds"]}
        if done.returncode:
            found["said"] = done.stdout[-2000:] + done.stderr[-2000:]
        return found


def record_ratios(name: str, runs: Sequence[dict[str, Any]], where: str) -> None:
    """Adds the ratios of runs in which all was right to those of pool `where` in ratios.json."""
    known = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    mine = known.setdefault(name, {}).setdefault(where, {})
    for run in runs:
        for key, value in run.get("seen", {}).items():
            if run["passed"] and key in RATIOS_OF.get(name, ()):
                mine.setdefault(key, []).append(round(value, 4))
    written = RATIOS.with_suffix(".written")
    written.write_text(json.dumps(known, sort_keys=True, indent=1) + "\n")
    written.replace(RATIOS)


def run_all(
    names: Sequence[str],
    numbers: range,
    workers: int,
    deadline: float,
    output: Path,
    *,
    recording: bool = False,
) -> Any:
    """{name: runs}, `workers` of them at a time; none is started behind the deadline."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def one(task: tuple[int, str]) -> None:
        number, name = task
        if time.monotonic() < deadline:
            run = run_once(name, _FIRST_SEED + number, recording=recording)
            found[name].append(run)
            print(name, number, run, flush=True)

    with ThreadPoolExecutor(workers) as pool_of_threads:
        list(pool_of_threads.map(one, itertools.product(numbers, names)))
    output.write_text(json.dumps(found, indent=1) + "\n")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(TESTS), default=sorted(TESTS))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--record", action="store_true", help="add the ratios to ratios.json")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no run behind so many")
    options = parser.parse_args(arguments)
    numbers = range(options.first, options.first + options.runs)
    deadline = time.monotonic() + 60 * options.minutes
    found = run_all(
        options.only,
        numbers,
        options.workers,
        deadline,
        options.output,
        recording=options.record,
    )
    for name, runs in found.items():
        passed = sum(run["passed"] for run in runs)
        print(f"{name}: {passed} of {len(runs)} runs passed", flush=True)
        if options.record:
            record_ratios(name, runs, pool())
    return int(any(not run["passed"] for runs in found.values() for run in runs))


if __name__ == "__main__":
    sys.exit(main())
