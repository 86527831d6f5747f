"""Faults to plant in a right int8 layer, one of each kind that tests elsewhere have let through.

A fault works on a loaded merged layer of two shards, gate and up, through what the layer runs on:
its parameters' storage and the two kernels that its method holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from testing.harness.linear import LoadedLinear

Plant = Callable[[LoadedLinear], None]


@dataclass(frozen=True)
class Fault:
    """One fault.

    plant: puts it into a layer.
    place: what a finding must name.
    formats: the formats that can have it.
    """

    name: str
    plant: Plant
    place: str
    formats: tuple[str, ...] = ("int8_channel", "int8_block")


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


def around_quantiser(change: Callable[..., Any]) -> Plant:
    """Replace x → (codes, scales) by `change(x, original)`."""

    def plant(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original = method.quantise
        method.quantise = lambda x: change(x, original)

    return plant


def around_matmul(change: Callable[..., Any]) -> Plant:
    """Replace the matmul by `change(original, codes, weight, x_scale, w_scale, dtype, bias)`."""

    def plant(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original = method.multiply
        method.multiply = lambda *args: change(original, *args)

    return plant


def _one_percent(loaded: LoadedLinear) -> None:
    scale_of(loaded).mul_(1.01)


def _one_percent_shard(loaded: LoadedLinear) -> None:
    scale = scale_of(loaded)
    scale[len(scale) // 2 :].mul_(0.99)


def _one_scale_of_channel(loaded: LoadedLinear) -> None:
    scale_of(loaded)[300].mul_(1.01)


def _one_tile_scale(loaded: LoadedLinear) -> None:
    scale_of(loaded)[3, 2].mul_(1.01)


def _one_tile_stale(loaded: LoadedLinear) -> None:
    weight_of(loaded)[128:256, 256:384] = 0


def _one_weight_row(loaded: LoadedLinear) -> None:
    weight = weight_of(loaded)
    weight[17] = weight[17].roll(1)


def _one_code(loaded: LoadedLinear) -> None:
    weight_of(loaded)[400, 77] ^= 1


def _swap_shards(loaded: LoadedLinear) -> None:
    for tensor in (weight_of(loaded), scale_of(loaded)):
        half = len(tensor) // 2
        swap(tensor[:half], tensor[half:])


def _scale_of_other_shard(loaded: LoadedLinear) -> None:
    scale = scale_of(loaded)
    half = len(scale) // 2
    scale[half:] = scale[:half]


def _scales_swapped(loaded: LoadedLinear) -> None:
    scale = scale_of(loaded)
    half = len(scale) // 2
    swap(scale[:half], scale[half:])


def _transposed_scales(loaded: LoadedLinear) -> None:
    scale = scale_of(loaded)
    scale.copy_(scale.t().clone())


def _scale_in_bf16(loaded: LoadedLinear) -> None:
    scale = scale_of(loaded)
    scale.copy_(scale.bfloat16())


def _rows_off_by_one(loaded: LoadedLinear) -> None:
    weight = weight_of(loaded)
    weight.copy_(weight.roll(1, 0))


def _truncate(x: torch.Tensor, original: Any) -> Any:
    codes, scales = original(x)
    wide = scales.repeat_interleave(-(-x.shape[1] // scales.shape[1]), 1)[:, : x.shape[1]]
    return torch.where(scales_finite(wide), (x.float() / wide).trunc(), codes).to(
        torch.int8
    ), scales


def scales_finite(scales: torch.Tensor) -> torch.Tensor:
    """Where a quotient by the scale means anything."""
    return torch.isfinite(scales)


def _wide_range(x: torch.Tensor, original: Any) -> Any:
    codes, scales = original(x)
    factor = 127 / 128
    return torch.round(codes.float() / factor).clamp(-128, 127).to(torch.int8), scales * factor


def _nan_everywhere(x: torch.Tensor, original: Any) -> Any:
    codes, scales = original(x)
    return codes, scales + scales.sum() * 0


def _nan_swallowed(x: torch.Tensor, original: Any) -> Any:
    return original(x.nan_to_num(0.0))


def _zero_rows_divide(x: torch.Tensor, original: Any) -> Any:
    codes, scales = original(x)
    return codes, torch.where(scales <= 2.0**-126, torch.nan, scales)


def _strides_ignored(x: torch.Tensor, original: Any) -> Any:
    return original(x.as_strided(x.shape, (x.shape[1], 1)))


def _next_group_scale(x: torch.Tensor, original: Any) -> Any:
    codes, scales = original(x)
    return codes, scales.roll(1, 1)


def _drop_last_k_block(multiply: Any, codes: torch.Tensor, *rest: Any) -> Any:
    whole = codes.clone()
    whole[:, (codes.shape[1] - 1) // 128 * 128 :] = 0
    return multiply(whole, *rest)


def _last_columns_unwritten(multiply: Any, *args: Any) -> Any:
    out = multiply(*args)
    poisoned = torch.empty_like(out)
    written = (out.shape[1] - 1) // 128 * 128
    poisoned[:, :written] = out[:, :written]
    return poisoned


def _round_twice(
    multiply: Any, codes: Any, weight: Any, xs: Any, ws: Any, dtype: Any, b: Any
) -> Any:
    narrow = torch.float16 if dtype == torch.bfloat16 else torch.bfloat16
    return multiply(codes, weight, xs, ws, narrow, b).to(dtype)


def _sums_in_bf16(
    multiply: Any, codes: Any, weight: Any, xs: Any, ws: Any, dtype: Any, b: Any
) -> Any:
    half = codes.shape[1] // 256 * 128
    first, second = codes.clone(), codes.clone()
    first[:, half:], second[:, :half] = 0, 0
    return multiply(first, weight, xs, ws, dtype, b) + multiply(second, weight, xs, ws, dtype, None)


BLOCK_ONLY, CHANNEL_ONLY = ("int8_block",), ("int8_channel",)

FAULTS = [
    Fault("scale off by 1%", _one_percent, "the whole output"),
    Fault("one shard's scale off by 1%", _one_percent_shard, "shard 'up'"),
    Fault("one row's scale", _one_scale_of_channel, "column 44 of shard 'up'", CHANNEL_ONLY),
    Fault("one tile's scale", _one_tile_scale, "tile (1, 2) of shard 'up'", BLOCK_ONLY),
    Fault("one tile never written", _one_tile_stale, "tile (1, 2) of shard 'gate'"),
    Fault("one weight row shifted", _one_weight_row, "column 17 of shard 'gate'"),
    Fault("one code off by one", _one_code, "(row 144 of shard 'up', k 77)"),
    Fault("gate and up swapped", _swap_shards, "shard 'gate' holds shard 'up'"),
    Fault("another shard's scale", _scale_of_other_shard, "shard 'up'"),
    Fault("scales of gate and up swapped", _scales_swapped, "shard 'gate'"),
    Fault("transposed block scales", _transposed_scales, "tile (0, 1) of shard 'gate'", BLOCK_ONLY),
    Fault("scales kept in bf16", _scale_in_bf16, "shard 'up'"),
    Fault("rows off by one", _rows_off_by_one, "shard 'gate'"),
    Fault("truncation for rounding", around_quantiser(_truncate), "natural data"),
    Fault("codes down to -128", around_quantiser(_wide_range), "the whole output"),
    Fault("scale of the next group", around_quantiser(_next_group_scale), "K block", BLOCK_ONLY),
    Fault("NaN in every row", around_quantiser(_nan_everywhere), "a NaN in row"),
    Fault("NaN swallowed", around_quantiser(_nan_swallowed), "x has a NaN in row"),
    Fault("division by a zero row", around_quantiser(_zero_rows_divide), "row of zeros"),
    Fault("strides of x ignored", around_quantiser(_strides_ignored), "x lies in a wider tensor"),
    Fault("last K block dropped", around_matmul(_drop_last_k_block), "K block 3 (k 384..511)"),
    Fault("last columns unwritten", around_matmul(_last_columns_unwritten), "of shard 'up'"),
    Fault("output rounded twice", around_matmul(_round_twice), "elements differ"),
    Fault("partial sums in bf16", around_matmul(_sums_in_bf16), "elements differ"),
]
