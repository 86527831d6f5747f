"""Faults of how fp8 layers bring their scales together after loading."""

from __future__ import annotations

from typing import Any

import torch

from testing.harness.linear import LoadedLinear
from testing.strength.edits.weights import scale_of


def largest_for_all(loaded: LoadedLinear) -> None:
    """max() over the shards, without quantising the weights again."""
    scale = scale_of(loaded)
    scale.fill_(scale.max())


def boundary_off_by_one(loaded: LoadedLinear) -> None:
    """The last row of the first shard has the second's scale."""
    scale = scale_of(loaded)
    scale[len(scale) // 2 - 1] = scale[len(scale) // 2]


def inverted(loaded: LoadedLinear) -> None:
    """`weight_scale_inv` taken by its name."""
    scale = scale_of(loaded)
    scale.reciprocal_()


def tiles_of_the_next_row(loaded: LoadedLinear) -> None:
    """Block rows off by one, within all shards."""
    scale = scale_of(loaded)
    scale.copy_(scale.roll(1, 0))


def _input_scale(choose: Any) -> Any:
    def wrap(original: Any) -> Any:
        def chosen(self: Any, layer: torch.nn.Module) -> torch.Tensor:
            slots = layer.get_parameter("input_scale").data
            return choose(slots).view(1, 1).clone()

        return chosen

    return wrap


input_scale_of_first_shard = _input_scale(lambda slots: slots[0])
input_scale_mean = _input_scale(lambda slots: slots.mean())
input_scale_in_bf16 = _input_scale(lambda slots: slots.max().bfloat16().float())
