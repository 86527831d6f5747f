"""Faults of what a loaded int8 layer of two shards, gate and up, holds: edits in place."""

from __future__ import annotations

import torch

from testing.harness.linear import LoadedLinear


def scale_of(loaded: LoadedLinear) -> torch.Tensor:
    """The weight scales that the kernels read, shared with the parameter."""
    names = [n for n, _ in loaded.layer.named_parameters() if n.startswith("weight_scale")]
    return loaded.layer.get_parameter(names[0]).data


def weight_of(loaded: LoadedLinear) -> torch.Tensor:
    """The codes (N, K) that the kernels read."""
    return loaded.layer.get_parameter("weight").data


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
    weight_of(loaded)[128:256, 256:384] = 0


def one_weight_row(loaded: LoadedLinear) -> None:
    """Row 17 of the first shard."""
    weight = weight_of(loaded)
    weight[17] = weight[17].roll(1)


def one_code(loaded: LoadedLinear) -> None:
    """The last bit of one code, row 144 of the second shard, k 77."""
    weight_of(loaded)[400, 77] ^= 1


def minus_128_clamped(loaded: LoadedLinear) -> None:
    """As symmetric quantisers, which never make it, may assume."""
    weight_of(loaded).clamp_(min=-127)


def swap_shards(loaded: LoadedLinear) -> None:
    """Codes and scales."""
    for tensor in (weight_of(loaded), scale_of(loaded)):
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
    weight = weight_of(loaded)
    weight.copy_(weight.roll(1, 0))
