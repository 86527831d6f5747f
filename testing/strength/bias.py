"""A relative bias of a known part of a layer's output, planted before the output is rounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from testing.harness.linear import LoadedLinear
from testing.oracles.places import Layout, Place, families
from testing.strength.edits.products import only_k, split_dtype

FAMILIES = ("gain", "row", "column", "tile")


@dataclass
class Lever:
    """A planted bias; the layer's next call takes the `gain` that stands here."""

    place: Place
    gain: float = 0.0


def random_place(rng: np.random.Generator, family: str, layout: Layout, rows: int) -> Place:
    """One place of a family, as the checks name it."""
    places = families(layout, rows)[family]
    return places[int(rng.integers(len(places)))]


def plant_bias(loaded: LoadedLinear, place: Place) -> Lever:
    """Make what `place` adds to the output (1 + gain) times as large.

    The layer's own product is computed with a float32 output, the share of the place is added
    (for a tile the product of its K block alone), and the sum is rounded to the dtype asked for:
    what a scale that is off by `gain` does to a kernel, without the steps of the scale's type.
    """
    method: Any = loaded.layer.quant_method
    original, lever, k = method.multiply, Lever(place), loaded.case.k

    def multiply(*args: Any) -> torch.Tensor:
        wide, dtype = split_dtype(args, torch.float32)
        out: torch.Tensor = original(*wide)
        if lever.gain:
            share = out
            if place.k_block is not None:
                block = range(k)[place.k_block * 128 : (place.k_block + 1) * 128]
                share = original(only_k(wide[0], k, block.start, block.stop), *wide[1:])
            # One row's place holds whatever rows the output has.
            rows = slice(None) if place.family != "row" else place.rows
            out[rows, place.columns] += lever.gain * share[rows, place.columns]
        return out.to(dtype)

    method.multiply = multiply
    return lever
