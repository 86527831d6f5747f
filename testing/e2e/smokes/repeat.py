"""Runs smokes many times with other problems each time, and keeps what they saw.

    python -m testing.e2e.smokes.repeat --runs 50 --output /tmp/runs.json

Each run is a process of its own with its own seed. Ends with 1 if any failed. With --record the
ratios of latencies go into ratios.json, where the smokes read their bounds from.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testing.e2e.smokes.figures import RATIOS
from testing.harness.device import pool

TESTS = {
    "gpt_oss_mxfp4_smoke": "testing/e2e/gpt_oss_mxfp4_smoke_test.py",
    "latency": "testing/perf/serving/latency_test.py",
    "mla_int8_mtp_smoke": "testing/e2e/mla_int8_mtp_smoke_test.py",
    "offline_throughput": "testing/perf/serving/offline_throughput_test.py",
    "tokenizer_workers_smoke": "testing/e2e/tokenizer_workers_smoke_test.py",
}
_FIRST_SEED = 5000


def run_once(name: str, seed: int) -> dict[str, Any]:
    """One run: {"seed", "passed", "seconds", "seen", "bounds", "said" where it failed}."""
    with tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {"PLUMBLINE_SEED": str(seed), "TEST_UNDECLARED_OUTPUTS_DIR": folder}
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


def record_ratios(name: str, runs: Sequence[dict[str, Any]]) -> None:
    """Puts the ratios of runs that passed into ratios.json, for this pool's earlier ones."""
    known = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    seen = [run["seen"] for run in runs if run["passed"]]
    accuracies = ("accuracy", "agreement", "accept_length", "per_second", "a_token")
    names = [key for key in (seen[0] if seen else {}) if not key.endswith(accuracies)]
    if names:
        made = {key: [round(one[key], 4) for one in seen] for key in names}
        known.setdefault(name, {})[pool()] = made
        written = RATIOS.with_suffix(".written")
        written.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        written.replace(RATIOS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(TESTS), default=sorted(TESTS))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--minutes", type=float, help="start no run behind so many")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * (options.minutes or 1e6)
    all_runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
    for number in range(options.runs):
        for name, runs in all_runs.items():
            if time.monotonic() > deadline:
                break
            runs.append(run_once(name, _FIRST_SEED + number))
            print(name, number, runs[-1], flush=True)
            options.output.write_text(json.dumps(all_runs, indent=1) + "\n")
    for name, runs in all_runs.items():
        passed = sum(run["passed"] for run in runs)
        print(f"{name}: {passed} of {len(runs)} runs passed", flush=True)
        if options.record:
            record_ratios(name, runs)
    return int(any(not run["passed"] for runs in all_runs.values() for run in runs))


if __name__ == "__main__":
    sys.exit(main())
