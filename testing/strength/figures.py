"""The measured strength of a format's test: held to the goals, printed, and kept for the table."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from testing.harness.device import pool
from testing.harness.linear import LinearCase, Method
from testing.harness.records import record
from testing.strength.every_bit import require_every_bit
from testing.strength.power import GOALS, SEEDS, criteria, smallest, trial
from testing.strength.single_bytes import Count, all_flips, count_flips, some_flips

EXHAUSTIVE_VARIABLE = "PLUMBLINE_EXHAUSTIVE"
FILE = "strength.jsonl"
WIDE_BACKEND = "torch" if pool() == "cpu" else "triton"
"""A backend that gives float32, which a bias is planted in; those of other packages do not."""

_FLIPS = 150


def percent(gain: float | None) -> str:
    """`0.011 %`; `never`, or that the right layer is rejected already."""
    if gain is None:
        return "never"
    return f"{100 * gain:.2g} %" if gain else "rejects right code"


def keep_figures(
    name: str, family: str, found: dict[str, float | None], goal: float, device_name: str
) -> None:
    """Print and record the smallest bias by each criterion.

    Raises:
        AssertionError: the lossless grid finds none as small as the goal.
    """
    print(f"{name} {family}: " + ", ".join(f"{label} {percent(g)}" for label, g in found.items()))
    entry: dict[str, object] = {
        "format": name,
        "family": family,
        "device": device_name,
        "smallest": found,
    }
    record(entry, FILE)
    gain = found["lossless grid"]
    assert gain is not None and 0 < gain <= goal, (
        f"{name}: the smallest bias of a {family} that the lossless grid finds in {SEEDS} seeds is "
        f"{percent(gain)}, wanted at most {percent(goal)}"
    )


def require_power(
    method: Method, family: str, four_bits: bool = False, backend: str | None = None
) -> None:
    """Measure the smallest bias that each criterion finds in one family of places.

    Raises:
        AssertionError: the lossless grid finds none as small as the family's goal.
    """
    trials = [trial(method, family, seed, backend) for seed in range(SEEDS)]
    asked = criteria(family, four_bits)
    if not trials[0].subject.quantises:
        # Nothing is asked of the quantiser of a layer that has none.
        asked.pop("natural data", None)
    keep_figures(
        method.format.name,
        family,
        {label: smallest(trials, finds) for label, finds in asked.items()},
        GOALS[family],
        trials[0].loaded.device_name,
    )


def require_every_byte(method: Method, k: int = 160) -> None:
    """Spoil every bit of each checkpoint tensor, many at once, and random ones singly.

    All are spoilt singly with PLUMBLINE_EXHAUSTIVE=1. The layer gives float32, so that the last
    bits of a float32 scale show too.

    Raises:
        AssertionError: the readback missed a bit that an exact layer would show.
    """
    case = LinearCase(method, "merged", 1, {"gate": 128, "up": 64}, k, dtype="float32")
    rng = np.random.default_rng(30)
    checkpoint = case.checkpoint(rng)
    for suffix, found in require_every_bit(case, checkpoint).items():
        print(
            f"{method.format.name} {suffix}: all bits flipped, {found} wrong ones found, 0 missed"
        )
    every = os.environ.get(EXHAUSTIVE_VARIABLE) == "1"
    flips = all_flips if every else lambda tensors: some_flips(rng, tensors, _FLIPS)
    counts = count_flips(case, checkpoint, flips(checkpoint.tensors))
    keep_flips(method.format.name, counts)


def keep_flips(name: str, counts: Mapping[str, Count]) -> None:
    """Print and record how many wrong bits of each tensor were found.

    Raises:
        AssertionError: the readback missed a bit that an exact layer would show.
    """
    for tensor, count in counts.items():
        print(
            f"{name} {tensor}: {count.found} flipped bits found, {len(count.missed)} missed, "
            f"{count.unchanged} changed nothing, {count.invisible} lie within the roundings of a "
            "right kernel"
        )
        figures: dict[str, object] = {
            "format": name,
            "tensor": tensor,
            "found": count.found,
            "missed": len(count.missed),
            "unchanged": count.unchanged,
            "invisible": count.invisible,
        }
        record(figures, FILE)
    missed = [flip for count in counts.values() for flip in count.missed]
    assert not missed, f"{name}: wrong bits that the readback missed: {missed[:8]}"
