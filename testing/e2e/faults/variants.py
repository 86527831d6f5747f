"""What accuracy of each checkpoint falls to under planted faults of kernels and of the loader.

    python -m testing.e2e.faults.variants

run in the checkout, writes a table into testing/e2e/checkpoints/README.md, and ends with 1 if a
fault is within the bound that holds where all is right. No server takes part: the layers' model
answers in this process, so that each checkpoint is looked at, not only those that smokes serve.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from layers.models.checkpoint.files import CheckpointFiles
from layers.models.load import load_model
from testing.e2e.asking.ask import MAX_TOKENS
from testing.e2e.checkpoints.folders import CHECKPOINTS, folder, measured, split
from testing.e2e.faults import model_faults  # noqa: F401 to register
from testing.e2e.faults.fault import FAULTS
from testing.e2e.smokes.seed import some_problems
from testing.e2e.statistics.bounds import RATE, Share, least_share
from testing.harness.device import device
from testing.perf.serving.bare import BareLoop

QUESTIONS = 100
_ALL = ("softmax_scale", "decode_position", "last_tile_lost")
_OF_BASE = {
    "dense": (*_ALL, "gate_and_up_swapped", "keys_and_values_swapped"),
    "mla_moe_mtp": (*_ALL, "gate_and_up_swapped", "experts_one_off"),
    "gpt_oss": (*_ALL, "combine_weights"),
}
_README = Path("testing/e2e/checkpoints/README.md")
_BETWEEN = re.compile(r"(<!-- variants: begin -->\n).*?(<!-- variants: end -->)", re.DOTALL)


@dataclass(frozen=True)
class Cell:
    """What a checkpoint achieves with a fault, or with none, "".

    least: what it falls below in one of 10,000 runs at most where all is right.
    """

    fault: str
    accuracy: float
    least: float

    @property
    def is_found(self) -> bool:
        """Whether it falls below."""
        return self.accuracy < self.least


def faults_of(checkpoint: str) -> tuple[str, ...]:
    """Names of those that a checkpoint can have."""
    base, method = split(checkpoint)
    if base == "gpt_oss":
        # The bf16 experts are stored the other way round, so that the fault is that of MXFP4's.
        return _OF_BASE[base] + (("gate_and_up_not_in_turn",) if method else ())
    return _OF_BASE[base] + (("scales_of_one_layer_missed",) if method else ())


def cell(checkpoint: str, fault: str = "") -> Cell:
    """Answers of the checkpoint's model, as the layers compute it, to held-out problems."""
    place = folder(checkpoint)
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    asked = some_problems(QUESTIONS)
    with _loaded(place, fault) as model:
        ids = [tokenizer.encode(problem.prompt).ids for problem in asked]
        ends = set(model.config.eos_token_ids)
        rows = BareLoop(model).run(ids, MAX_TOKENS).tokens
    right = sum(
        _ended(row, ends) == tokenizer.encode(problem.answer, add_special_tokens=False).ids
        for row, problem in zip(rows, asked, strict=True)
    )
    counts = measured(checkpoint)["right"].values()
    reference = Share(sum(hits for hits, _ in counts), sum(of for _, of in counts))
    return Cell(fault, right / QUESTIONS, least_share(reference, QUESTIONS, RATE))


def _ended(row: Sequence[int], ends: set[int]) -> list[int] | None:
    """Tokens before the end; None without an end."""
    place = next((i for i, token in enumerate(row) if token in ends), None)
    return None if place is None else list(row[:place])


@contextmanager
def _loaded(place: Path, fault: str) -> Iterator[Any]:
    """The model with the fault in it. What faults of the loader patch is mended behind it."""
    load = CheckpointFiles.load
    try:
        planting = FAULTS[fault].plant() if fault else None
        if planting is not None:
            next(planting)
        model = load_model(place, device=device(), with_draft=False)
        if planting is not None:
            planting.send(model)
        yield model
    finally:
        CheckpointFiles.load = load  # type: ignore[method-assign]


def _cells(checkpoint: str) -> list[Cell]:
    cells = [cell(checkpoint, fault) for fault in ("", *faults_of(checkpoint))]
    print(checkpoint, *cells, flush=True)
    return cells


def table(found: dict[str, list[Cell]]) -> str:
    """A row a checkpoint, a column a fault; what is not found is bold."""
    names = list(dict.fromkeys(cell.fault for cells in found.values() for cell in cells[1:]))
    head = ["checkpoint", "right", "bound", *(f"`{name}`" for name in names)]
    lines = [head, ["---"] * len(head)]
    for checkpoint, (right, *faulty) in found.items():
        marks = {c.fault: "" if c.is_found else "**" for c in faulty}
        shown = {c.fault: f"{marks[c.fault]}{c.accuracy:.2f}{marks[c.fault]}" for c in faulty}
        cells = [shown.get(name, "") for name in names]
        lines.append([f"`{checkpoint}`", f"{right.accuracy:.2f}", f"{right.least:.2f}", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plants each fault into each checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CHECKPOINTS, default=CHECKPOINTS)
    parser.add_argument("--workers", type=int, default=1, help="checkpoints at a time")
    parser.add_argument("--output", type=Path, help="a file for the table, instead of the README")
    options = parser.parse_args(arguments)
    # Processes, as a fault of the loader patches its class.
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        found = dict(zip(options.only, pool.map(_cells, options.only), strict=True))
    if options.output:
        options.output.write_text(table(found))
    else:
        written = table(found)
        text = _BETWEEN.sub(lambda old: old[1] + written + old[2], _README.read_text())
        beside = _README.with_suffix(".new")
        beside.write_text(text)
        beside.replace(_README)
    return int(any(not c.is_found for cells in found.values() for c in cells[1:]))


if __name__ == "__main__":
    sys.exit(main())
