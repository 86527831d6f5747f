"""What figures of the smokes fall to under each planted fault, as a table.

    python -m testing.e2e.faults.table

run in the checkout, writes it into testing/e2e/checkpoints/README.md, and ends with 1 if a fault failed
no smoke.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from testing.e2e.faults import engine_faults, model_faults, text_faults  # noqa: F401 to register
from testing.e2e.faults.fault import FAULTS, Fault
from testing.e2e.smokes import gpt_oss, mla_int8_mtp, tokenizer_workers
from testing.e2e.smokes.figures import RECORDING, Figures

SMOKES = {
    smoke.name: smoke for smoke in (gpt_oss.MXFP4, mla_int8_mtp.SMOKE, tokenizer_workers.SMOKE)
}
_README = Path("testing/e2e/checkpoints/README.md")
_BETWEEN = re.compile(r"(<!-- faults: begin -->\n).*?(<!-- faults: end -->)", re.DOTALL)


def row(fault: Fault, smoke: str) -> tuple[str, bool]:
    """A line of the table, and whether the smoke failed."""
    try:
        figures = SMOKES[smoke].figures(fault.name)
    except AssertionError as error:
        return f"| {smoke} | {fault.kind} | `{fault.name}` | did not start | |\n", "start" in str(
            error
        )
    caught = [line.split(",")[0] for line in figures.failures]
    said = "; ".join(line for line in caught) or "**not found**"
    return f"| {smoke} | {fault.kind} | `{fault.name}` | {_shown(figures)} | {said} |\n", bool(
        caught
    )


def _shown(figures: Figures) -> str:
    names = ("accuracy", "streamed_accuracy", "accept_length")
    seen = [(name, figures.seen[name]) for name in names if name in figures.seen]
    return ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in seen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plants each fault into each of its smokes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(SMOKES), default=sorted(SMOKES))
    parser.add_argument("--output", type=Path, help="a file for the rows alone")
    options = parser.parse_args(arguments)
    # A pool of which no ratio is recorded has no bound of it: that is no finding.
    os.environ[RECORDING] = "1"
    lines, missed = [], 0
    for smoke in options.only:
        for fault in FAULTS.values():
            if smoke in fault.smokes:
                line, found = row(fault, smoke)
                lines.append(line)
                missed += not found
                print(line, end="", flush=True)
                if options.output:
                    options.output.write_text("".join(lines))
    if not options.output:
        head = "| smoke | kind | fault | right runs fall to | what fails |\n"
        head += "| --- | --- | --- | --- | --- |\n"
        text = _README.read_text()
        made = head + "".join(lines)
        _README.write_text(_BETWEEN.sub(lambda found: found[1] + made + found[2], text))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
