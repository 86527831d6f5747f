"""Faults to plant in a right int8 layer, one of each kind that tests elsewhere have let through."""

from __future__ import annotations

from testing.quant.int8.methods import BLOCK, CHANNEL
from testing.strength import common
from testing.strength.common import GRID, NATURAL, RANGE, READ, TIES
from testing.strength.edits import activations, products, weights
from testing.strength.fault import Fault
from testing.strength.int8 import codes
from testing.strength.linear_bench import in_layer, in_product, in_quantiser
from testing.strength.places import WHOLE, cell, column, tile

METHODS = {"int8_channel": CHANNEL, "int8_block": BLOCK}
BENCHES = {name: common.benches(method) for name, method in METHODS.items()}
BOTH = ("int8_channel", "int8_block")
BLOCK_ONLY, CHANNEL_ONLY = ("int8_block",), ("int8_channel",)

_SCALES = [
    Fault(
        "one row's scale",
        "scale",
        in_layer(weights.one_scale_of_channel),
        GRID,
        (column(44, "up"),),
        CHANNEL_ONLY,
    ),
    Fault(
        "one tile's scale",
        "scale",
        in_layer(weights.one_tile_scale),
        GRID,
        (tile(1, 2, "up"),),
        BLOCK_ONLY,
    ),
    Fault(
        "transposed block scales",
        "placement",
        in_layer(weights.transposed_scales),
        READ,
        (cell(0, 128),),
        BLOCK_ONLY,
    ),
    Fault(
        "scale of the next group",
        "placement",
        in_quantiser(activations.next_group_scale),
        READ,
        (cell(0, 0),),
        BLOCK_ONLY,
    ),
    Fault(
        "one column off by 1%",
        "scale",
        in_product(products.one_column),
        GRID,
        (column(44, "up"),),
        BLOCK_ONLY,
    ),
]

_CODES = [
    Fault(
        "code -128 read as -127",
        "range",
        in_layer(codes.minus_128_clamped),
        READ,
        (cell(0, 494),),
        BOTH,
    ),
    Fault("truncation", "rounding", in_quantiser(codes.truncate), NATURAL, (WHOLE,), BOTH),
    Fault(
        "half away from zero",
        "rounding",
        in_quantiser(codes.half_away_from_zero),
        TIES,
        (WHOLE,),
        BOTH,
    ),
    Fault(
        "scale of at least 1e-5",
        "range",
        in_quantiser(codes.scale_at_least_a_hundred_thousandth),
        RANGE,
        (("element", "rows 0, 1, 2"),),
        BOTH,
    ),
    Fault("codes down to -128", "range", in_quantiser(codes.wide_range), GRID, (WHOLE,), BOTH),
]

FAULTS = [
    *common.faults(BOTH, {"scales kept in bf16": {fmt: (cell(0, 5),) for fmt in BOTH}}),
    *_SCALES,
    *_CODES,
]
