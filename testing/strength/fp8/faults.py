"""Faults to plant in a right fp8 layer: by tensor, static and dynamic, by channel and by block."""

from __future__ import annotations

from layers.quantization.fp8_linear import Fp8TensorLinearMethod
from testing.harness.device import pool
from testing.quant.fp8 import methods
from testing.strength import common
from testing.strength.common import GRID, NATURAL, RANGE, READ, TIES
from testing.strength.edits import activations, loading, products, weights
from testing.strength.fault import Fault
from testing.strength.fp8 import codes, scales
from testing.strength.linear_bench import (
    in_code,
    in_layer,
    in_product,
    in_quantiser,
    in_stream,
)
from testing.strength.places import ELEMENTS, GATE, WHOLE, cell, column, output, tile

STATIC, DYNAMIC, CHANNEL, BLOCK = (
    "fp8_tensor_static",
    "fp8_tensor_dynamic",
    "fp8_channel",
    "fp8_block",
)
# Of those that give float32, which some faults are planted in.
BACKEND = "torch" if pool() == "cpu" else "triton"
METHODS = {
    STATIC: methods.STATIC,
    DYNAMIC: methods.DYNAMIC,
    CHANNEL: methods.CHANNEL,
    BLOCK: methods.BLOCK,
}
BENCHES = {name: common.benches(method, BACKEND) for name, method in METHODS.items()}
# A static layer whose input scale is a power of two, so that x can lie on a tie.
BENCHES[STATIC]["exact scale"] = common.benches(methods.STATIC_EXACT, BACKEND)["merged"]
BY_TENSOR, BY_TOKEN = (STATIC, DYNAMIC), (DYNAMIC, CHANNEL)
DYNAMICS = (DYNAMIC, CHANNEL, BLOCK)
ALL = (STATIC, *DYNAMICS)


_PLACES = {
    "scales kept in bf16": {
        STATIC: (cell(0, 6),),
        DYNAMIC: (cell(0, 4, "up"),),
        CHANNEL: (cell(1, 12),),
        BLOCK: (cell(0, 144),),
    }
}
# What a scale that does not depend on x cannot suffer from, or cannot show.
_WITHOUT = dict.fromkeys(
    ("x below 2^-20 flushed", "x clamped to 10000", "NaN in every row", "division by a zero row"),
    (STATIC,),
)

_SCALES = [
    Fault(
        "largest scale for all shards",
        "fold",
        in_layer(scales.largest_for_all),
        GRID,
        (GATE,),
        BY_TENSOR,
    ),
    Fault(
        "a row with the next shard's scale",
        "fold",
        in_layer(scales.boundary_off_by_one),
        GRID,
        (column(255, "gate"),),
        BY_TENSOR,
    ),
    Fault("scale inverted", "scale", in_layer(scales.inverted), READ, (cell(0, 0),), ALL),
    Fault(
        "one row's scale",
        "scale",
        in_layer(weights.one_scale_of_channel),
        GRID,
        (column(44, "up"),),
        (CHANNEL,),
    ),
    Fault(
        "one tile's scale",
        "scale",
        in_layer(weights.one_tile_scale),
        GRID,
        (tile(1, 2, "up"),),
        (BLOCK,),
    ),
    Fault(
        "transposed block scales",
        "placement",
        in_layer(weights.transposed_scales),
        READ,
        (cell(0, 128),),
        (BLOCK,),
    ),
    Fault(
        "block scales of the next rows",
        "placement",
        in_layer(scales.tiles_of_the_next_row),
        READ,
        (cell(0, 0),),
        (BLOCK,),
    ),
    Fault(
        "scale of the next group",
        "placement",
        in_quantiser(activations.next_group_scale),
        READ,
        (cell(0, 0),),
        (BLOCK,),
    ),
    Fault(
        "weight scales take each other's slot",
        "loader",
        in_stream(loading.renamed("weight_scale")),
        READ,
        (cell(0, 0),),
        (*BY_TENSOR, CHANNEL),
    ),
    Fault(
        "one column off by 1%",
        "scale",
        in_product(products.one_column),
        GRID,
        (column(44, "up"),),
        ALL,
    ),
]
_INPUT = [
    Fault(
        name,
        kind,
        in_code(Fp8TensorLinearMethod, "_largest_input_scale", wrap),
        GRID,
        (WHOLE,),
        (STATIC,),
    )
    for name, kind, wrap in (
        ("input scale of the first shard", "fold", scales.input_scale_of_first_shard),
        ("mean of the input scales", "fold", scales.input_scale_mean),
        ("input scale in bf16", "scale dtype", scales.input_scale_in_bf16),
    )
]
_CODES = [
    Fault("truncation", "rounding", in_quantiser(codes.truncate), NATURAL, (WHOLE,), ALL),
    Fault(
        "half away from zero",
        "rounding",
        in_quantiser(codes.half_away_from_zero),
        TIES,
        (WHOLE,),
        DYNAMICS,
        places_in={BLOCK: (WHOLE, ("row", "row 6"))},
    ),
    Fault(
        "half away from zero, static",
        "rounding",
        in_quantiser(codes.half_away_from_zero),
        TIES,
        (WHOLE,),
        (STATIC,),
        "exact scale",
    ),
    Fault("codes through e5m2", "rounding", in_quantiser(codes.two_bits), NATURAL, (WHOLE,), ALL),
    Fault("codes up to 240", "range", in_quantiser(codes.up_to_240), GRID, (WHOLE,), ALL),
    Fault(
        "no saturation",
        "range",
        in_quantiser(codes.not_saturated),
        RANGE,
        (("finite", output(3, 0, "gate")),),
        (STATIC,),
    ),
    Fault(
        "subnormal codes flushed",
        "range",
        in_quantiser(codes.smallest_codes_flushed),
        TIES,
        (ELEMENTS,),
        DYNAMICS,
    ),
    Fault(
        "subnormal codes flushed, static",
        "range",
        in_quantiser(codes.smallest_codes_flushed),
        NATURAL,
        (ELEMENTS,),
        (STATIC,),
    ),
    Fault(
        "activation scale in bf16",
        "scale dtype",
        in_quantiser(codes.scale_in_bf16),
        READ,
        (cell(0, 1),),
        DYNAMICS,
    ),
    Fault(
        "scale of at least 1/(448*512)",
        "range",
        in_quantiser(codes.scale_at_least_a_two_hundred_thousandth),
        RANGE,
        (("element", "rows 0, 1, 2"),),
        DYNAMICS,
    ),
]
FAULTS = [
    *common.faults(ALL, _PLACES, _WITHOUT),
    *_SCALES,
    *_INPUT,
    *_CODES,
]
