"""Measures plumb against Bazel itself: `tools/bazel run //tools/plumb/truth -- --edits 300`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tools.plumb import bazel
from tools.plumb.truth import figures
from tools.plumb.truth.measure import Bench

_HERE = Path(__file__).resolve()


def main() -> None:
    """Prints each inexact answer as it comes, then the figures."""
    parser = argparse.ArgumentParser(prog="truth", description=__doc__)
    parser.add_argument("--edits", type=int, default=300, help="how many changes to make")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same changes")
    parser.add_argument("--precise", action="store_true", help="ask plumb --precise as well")
    options = parser.parse_args()
    repository = _HERE.parents[3]
    entry = bazel.find_entry(repository, repository)
    with tempfile.TemporaryDirectory(prefix="plumb-truth-") as folder:
        bench = Bench(Path(folder), entry, options.seed, precise=options.precise)
        steps, start = [], time.monotonic()
        try:
            for step in bench.steps(options.edits):
                steps.append(step)
                if text := figures.wrong(step):
                    print(f"{len(steps):4} {text}", flush=True)
        finally:
            bench.close()
    seconds = time.monotonic() - start
    print(f"seed {options.seed}, {len(bench.all_tests)} tests, {seconds:.0f} s")
    print(figures.table(steps))


if __name__ == "__main__":
    main()
