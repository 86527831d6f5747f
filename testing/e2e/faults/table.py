"""What figures of the smokes fall to under each planted fault, as a table.

    python -m testing.e2e.faults.table

run in the checkout, writes it into testing/e2e/checkpoints/README.md, and ends with 1 if a fault
failed no smoke.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testing.e2e.faults import engine_faults, model_faults, text_faults  # noqa: F401 to register
from testing.e2e.faults.fault import FAULTS, Fault
from testing.e2e.smokes import gpt_oss, mla_int8_mtp, tokenizer_workers
from testing.e2e.smokes.figures import Figures

SMOKES = {
    smoke.name: smoke for smoke in (gpt_oss.MXFP4, mla_int8_mtp.SMOKE, tokenizer_workers.SMOKE)
}
_HEAD = """\
| smoke | kind | fault | right runs fall to | what fails |
| --- | --- | --- | --- | --- |
"""
README = Path("testing/e2e/checkpoints/README.md")
# What a failure says besides what was seen.
_BEHIND = re.compile(r", (?:wanted|as in) ")
_BETWEEN = re.compile(r"(<!-- faults: begin -->\n).*?(<!-- faults: end -->)", re.DOTALL)


def found_by(fault: Fault, figures: Figures) -> list[str]:
    """What the smoke says of the fault. A busy machine is late as well, so lateness counts for
    those alone that make it so."""
    return figures.late if fault.is_slow else figures.failures


def row(fault: Fault | None, smoke: str) -> tuple[str, bool]:
    """A line of the table, and whether it is as it should be: the smoke failed of the fault, or
    did not without one.

    Raises:
        AssertionError: the server did not start, or ended otherwise than by its stop.
    """
    if fault is None:
        figures = SMOKES[smoke].figures()
        return f"| {smoke} | | right | {_shown(figures)} | |\n", not figures.failures
    figures = SMOKES[smoke].figures(fault.name)
    caught = [_BEHIND.split(line)[0] for line in found_by(fault, figures)]
    said = "; ".join(caught) or "**not found**"
    shown = _shown(figures, slow=fault.is_slow)
    return f"| {smoke} | {fault.kind} | `{fault.name}` | {shown} | {said} |\n", bool(caught)


def _shown(figures: Figures, *, slow: bool = False) -> str:
    names = ["accuracy", "streamed_accuracy", "accept_length", "sameness"]
    names += ["inter_token", "time_to_first_token"] if slow else []
    seen = [(name, figures.seen[name]) for name in names if name in figures.seen]
    return ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in seen)


def planted(smokes: Sequence[str]) -> list[tuple[Fault | None, str]]:
    """Each smoke as it is, and behind it with each of its faults, by kind."""
    pairs: list[tuple[Fault | None, str]] = []
    for smoke in smokes:
        mine = [fault for fault in FAULTS.values() if smoke in fault.smokes]
        pairs += [(None, smoke), *((f, smoke) for f in sorted(mine, key=lambda f: f.kind))]
    return pairs


def rows(smokes: Sequence[str], workers: int) -> list[tuple[str, bool]]:
    """The table's lines, `workers` servers at a time."""

    def one(pair: tuple[Fault | None, str]) -> tuple[str, bool]:
        made = row(*pair)
        print(made[0], end="", flush=True)
        return made

    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(one, planted(smokes)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Plants each fault into each of its smokes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(SMOKES), default=sorted(SMOKES))
    parser.add_argument("--workers", type=int, default=1, help="servers at a time")
    parser.add_argument("--output", type=Path, help="a file for the table, instead of the README")
    options = parser.parse_args(arguments)
    made = rows(options.only, options.workers)
    table = _HEAD + "".join(line for line, _ in made)
    if options.output:
        options.output.write_text(table)
    else:
        text = _BETWEEN.sub(lambda found: found[1] + table + found[2], README.read_text())
        beside = README.with_suffix(".new")
        beside.write_text(text)
        beside.replace(README)
    return int(not all(found for _, found in made))


if __name__ == "__main__":
    sys.exit(main())
