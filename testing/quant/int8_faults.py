"""Faults to plant in a right int8 layer, one of each kind that tests elsewhere have let through.

A fault works on a loaded merged layer of two shards, gate and up, of 256 rows each, K 512, through
what the layer runs on: its parameters' storage and the two kernels that its method holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from testing.quant import int8_kernel_faults as kernel
from testing.quant import int8_weight_faults as weight
from testing.quant.int8_kernel_faults import around_matmul, around_quantiser

BOTH = ("int8_channel", "int8_block")
BLOCK_ONLY, CHANNEL_ONLY = ("int8_block",), ("int8_channel",)

GRID, READ, NATURAL = "lossless grid", "one-hot readback", "natural data"
TIES, RANGE, CONTAINMENT = "ties", "range of x", "containment"
WHOLE = ("gain", "the whole output")
GATE, UP = ("shard", "shard 'gate'"), ("shard", "shard 'up'")
ELEMENTS = ("element", "elements")
SPREAD = ("spread", "other rows")


def cell(row: int, k: int, shard: str = "gate") -> tuple[str, str]:
    """The first wrong weight cell that the readback names."""
    return "cell", f"shard '{shard}', row {row} of shard '{shard}', k {k}"


@dataclass(frozen=True)
class Fault:
    """One fault.

    plant: puts it into a layer; in _ACTIVATION_FAULTS and _MATMUL_FAULTS what replaces the kernel.
    check: one that must find it.
    places: (family, place) of everything that this check names, and nothing else. `ELEMENTS` beside
        other places goes without saying; alone it says that no part is biased as a whole.
    formats: the formats that can have it.
    """

    name: str
    plant: Callable[..., Any]
    check: str
    places: tuple[tuple[str, str], ...]
    formats: tuple[str, ...] = BOTH


_WEIGHT_FAULTS = [
    Fault("scale off by 1%", weight.one_percent, GRID, (WHOLE,)),
    Fault("one shard's scale off by 1%", weight.one_percent_shard, GRID, (UP,)),
    Fault(
        "one row's scale",
        weight.one_scale_of_channel,
        GRID,
        (("column", "column 44 of shard 'up'"),),
        CHANNEL_ONLY,
    ),
    Fault(
        "one tile's scale",
        weight.one_tile_scale,
        GRID,
        (("tile", "tile (1, 2) of shard 'up'"),),
        BLOCK_ONLY,
    ),
    Fault(
        "one tile never written",
        weight.one_tile_stale,
        GRID,
        (("tile", "tile (1, 2) of shard 'gate'"),),
    ),
    Fault(
        "one weight row shifted",
        weight.one_weight_row,
        GRID,
        (("column", "column 17 of shard 'gate'"),),
    ),
    Fault("one code off by one", weight.one_code, READ, (cell(144, 77, "up"),)),
    Fault("code -128 read as -127", weight.minus_128_clamped, READ, (cell(0, 494),)),
    Fault("gate and up swapped", weight.swap_shards, GRID, (GATE, UP)),
    Fault("another shard's scale", weight.scale_of_other_shard, READ, (cell(0, 0, "up"),)),
    Fault("scales of gate and up swapped", weight.scales_swapped, READ, (cell(0, 0),)),
    Fault("transposed block scales", weight.transposed_scales, READ, (cell(0, 128),), BLOCK_ONLY),
    Fault("scales kept in bf16", weight.scale_in_bf16, READ, (cell(0, 5),)),
    Fault("rows off by one", weight.rows_off_by_one, READ, (cell(0, 0),)),
]

_ACTIVATION_FAULTS = [
    Fault("one token's scale off by 1%", kernel.one_token_scale, GRID, (("row", "row 5"),)),
    Fault("truncation for rounding", kernel.truncate, NATURAL, (WHOLE,)),
    Fault("half away from zero", kernel.half_away_from_zero, TIES, (WHOLE,)),
    Fault(
        "scale of at least 1e-5",
        kernel.scale_at_least_a_hundred_thousandth,
        RANGE,
        (("element", "rows 0, 1, 2"),),
    ),
    Fault(
        "x below 2^-20 flushed",
        kernel.small_x_flushed,
        RANGE,
        (("element", "rows 0, 1, 2"),),
    ),
    Fault("x clamped to 10000", kernel.large_x_clamped, RANGE, (("element", "rows 3, 4"),)),
    Fault("codes down to -128", kernel.wide_range, GRID, (WHOLE,)),
    Fault(
        "scale of the next group",
        kernel.next_group_scale,
        READ,
        (cell(0, 0),),
        BLOCK_ONLY,
    ),
    Fault("NaN in every row", kernel.nan_everywhere, CONTAINMENT, (SPREAD,)),
    Fault(
        "NaN and Inf swallowed",
        kernel.nan_swallowed,
        CONTAINMENT,
        (("spoilt", "row 31"), ("spoilt", "row 0"), ("spoilt", "row 2")),
    ),
    Fault(
        "Inf swallowed",
        kernel.inf_swallowed,
        CONTAINMENT,
        (("spoilt", "row 0"), ("spoilt", "row 2")),
    ),
    Fault(
        "division by a zero row",
        kernel.zero_rows_divide,
        "row of zeros",
        (("finite", "row 1, column 0 of shard 'gate'"),),
    ),
    Fault(
        "strides of x ignored",
        kernel.strides_ignored,
        "padding",
        (("element", "row 1, column 0 of shard 'gate'"),),
    ),
    Fault("x overwritten", kernel.x_overwritten, "memory", (("memory", "x"),)),
]

_MATMUL_FAULTS = [
    Fault(
        "one column off by 1%",
        kernel.one_column,
        GRID,
        (("column", "column 44 of shard 'up'"),),
        BLOCK_ONLY,
    ),
    Fault(
        "last K block dropped",
        kernel.drop_last_k_block,
        GRID,
        (("k_block", "K block 3 (k 384..511)"),),
    ),
    Fault(
        "last columns unwritten",
        kernel.last_columns_unwritten,
        GRID,
        (("finite", "row 0, column 128 of shard 'up'"),),
    ),
    Fault("output rounded twice", kernel.round_twice, GRID, (ELEMENTS,)),
    Fault("partial sums in bf16", kernel.sums_in_bf16, GRID, (ELEMENTS,)),
]

FAULTS = [
    *_WEIGHT_FAULTS,
    *(replace(fault, plant=around_quantiser(fault.plant)) for fault in _ACTIVATION_FAULTS),
    *(replace(fault, plant=around_matmul(fault.plant)) for fault in _MATMUL_FAULTS),
    Fault("one output for all calls", kernel.output_shared, "memory", (("memory", "output"),)),
]
