"""Makes tables of the figures that tests recorded, for docs/gpu_results.md.

tools/bazel run //tools/results -- bazel-testlogs

Layers: how many were examined and were wrong; the largest distance of a regression gain from 1, the
largest z-score of any row, column, tile, shard or stage, the largest distance of the quantiser's
noise from its model, and the probes' seconds. Attention has a row for each backend and mode: calls
and their requests, gain error, z-score, seconds. Then other encoders' codes, the smallest biases
that were found, and single flipped bits, where such tests ran. Each target's seconds go to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.results.reading import ResultsError, records, target_seconds
from tools.results.tables import tables


def main(argv: Sequence[str]) -> int:
    """Prints the tables; 1 if anything was wrong, 2 if nothing was recorded."""
    parser = argparse.ArgumentParser(
        prog="tools/bazel run //tools/results --",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="bazel-testlogs, or a folder in it")
    folder = parser.parse_args(argv).folder
    folder = Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / folder
    try:
        made = tables(records(folder))
        if not made:
            raise ResultsError(f"no test below {folder} recorded figures: run a layer test")
        seconds = target_seconds(folder)
    except ResultsError as error:
        print(f"results: {error}", file=sys.stderr)
        return 2
    print("\n\n".join(table.markdown() for table in made))
    for target, taken in seconds.items():
        print(f"{target}: {taken:.1f} s in pytest", file=sys.stderr)
    for table in made:
        if table.wrong:
            print(f"results: {table.title}: {table.wrong} records are wrong", file=sys.stderr)
    return int(any(table.wrong for table in made))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
