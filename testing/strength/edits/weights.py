"""Faults of what a loaded layer of two shards, gate and up, holds: edits in place.

Codes are seen as bytes, whatever their format, so that one edit serves all formats.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from testing.harness.linear import LoadedLinear

Edit = Callable[[LoadedLinear], None]


def scale_of(loaded: LoadedLinear) -> torch.Tensor:
    """The weight scales that the kernels read, shared with the parameter."""
    names = [n for n, _ in loaded.layer.named_parameters() if n.startswith("weight_scale")]
    return loaded.layer.get_parameter(names[0]).data


def codes_of(loaded: LoadedLinear) -> torch.Tensor:
    """The codes (N, K), or (N, K/2) where a byte holds two, that the kernels read, as uint8."""
    return loaded.layer.get_parameter("weight").data.view(torch.uint8)


def swap(part: torch.Tensor, other: torch.Tensor) -> None:
    """Exchange two parts of one tensor."""
    kept = part.clone()
    part.copy_(other)
    other.copy_(kept)


def one_percent(loaded: LoadedLinear) -> None:
    """All scales 1% too large."""
    scale_of(loaded).mul_(1.01)


def one_percent_shard(loaded: LoadedLinear) -> None:
    """The second shard 1% too small."""
    scale = scale_of(loaded)
    scale[len(scale) // 2 :].mul_(0.99)


def one_scale_of_channel(loaded: LoadedLinear) -> None:
    """Row 44 of the second shard."""
    scale_of(loaded)[300].mul_(1.01)


def one_tile_scale(loaded: LoadedLinear) -> None:
    """Tile (1, 2) of the second shard."""
    scale_of(loaded)[3, 2].mul_(1.01)


def one_tile_stale(loaded: LoadedLinear) -> None:
    """Tile (1, 2) of the first shard holds zeros."""
    codes = codes_of(loaded)
    tile = codes.shape[1] // 4
    codes[128:256, 2 * tile : 3 * tile] = 0


def one_weight_row(loaded: LoadedLinear) -> None:
    """Row 17 of the first shard."""
    codes = codes_of(loaded)
    codes[17] = codes[17].roll(1)


def flip(row: int, byte: int, mask: int) -> Edit:
    """Other bits in one byte of the codes."""

    def edit(loaded: LoadedLinear) -> None:
        codes_of(loaded)[row, byte] ^= mask

    return edit


def swap_shards(loaded: LoadedLinear) -> None:
    """Codes and scales."""
    for tensor in (codes_of(loaded), scale_of(loaded)):
        half = len(tensor) // 2
        swap(tensor[:half], tensor[half:])


def scale_of_other_shard(loaded: LoadedLinear) -> None:
    """The first shard scales both."""
    scale = scale_of(loaded)
    half = len(scale) // 2
    scale[half:] = scale[:half]


def scales_swapped(loaded: LoadedLinear) -> None:
    """Codes stay."""
    scale = scale_of(loaded)
    half = len(scale) // 2
    swap(scale[:half], scale[half:])


def transposed_scales(loaded: LoadedLinear) -> None:
    """Square here."""
    scale = scale_of(loaded)
    scale.copy_(scale.t().clone())


def scale_in_bf16(loaded: LoadedLinear) -> None:
    """Kept with eight bits."""
    scale = scale_of(loaded)
    scale.copy_(scale.bfloat16())


def rows_off_by_one(loaded: LoadedLinear) -> None:
    """Across shards."""
    codes = codes_of(loaded)
    codes.copy_(codes.roll(1, 0))


def bias_of_other_shard(loaded: LoadedLinear) -> None:
    """The first shard's for both."""
    bias = loaded.layer.get_parameter("bias").data
    half = len(bias) // 2
    bias[half:] = bias[:half]
