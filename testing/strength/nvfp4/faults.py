"""Faults to plant in a right NVFP4 layer that quantises x as well (W4A4)."""

from __future__ import annotations

from layers.kernels.fp4 import dequantise, nvfp4_mm, nvfp4_quant
from layers.quantization import nvfp4_linear
from testing.harness.linear import LinearCase
from testing.quant.nvfp4 import methods
from testing.strength import common
from testing.strength.block_scales import block_scale_faults
from testing.strength.common import GRID, NATURAL, READ, TIES
from testing.strength.edits import four_bits, loading, products, swizzled
from testing.strength.fault import Bench, Fault
from testing.strength.linear_bench import (
    LinearBench,
    in_code,
    in_layer,
    in_product,
    in_stream,
)
from testing.strength.nvfp4 import blocks, scales
from testing.strength.places import ELEMENTS, GATE, UP, WHOLE, cell, column, output

FORMAT = "nvfp4_w4a4"
ONLY = (FORMAT,)
METHODS = {FORMAT: methods.W4A4}
_RAGGED = LinearCase(methods.W4A4, "merged", 32, {"gate": 256, "up": 160}, 336, backend="torch")
BENCHES: dict[str, dict[str, Bench]] = {
    FORMAT: {
        **common.benches(methods.W4A4, "torch"),
        "exact scale": common.benches(methods.W4A4_EXACT, "torch")["merged"],
        # Neither rows nor scale columns fill their tiles.
        "ragged": LinearBench(_RAGGED),
    }
}

_SWIZZLE = [
    Fault(name, kind, in_code(nvfp4_linear, "swizzle", wrap), READ, (place,), ONLY, bench)
    for name, kind, wrap, place, bench in (
        ("scales not swizzled", "swizzle", swizzled.not_swizzled, cell(0, 65), "merged"),
        ("scales swizzled twice", "swizzle", swizzled.twice, cell(0, 65), "merged"),
        ("swizzle off by one byte", "swizzle", swizzled.off_by_one, cell(0, 0), "merged"),
        ("rows of a tile in fours", "swizzle", swizzled.rows_in_fours, cell(1, 0), "merged"),
        (
            "tiles down the columns first",
            "swizzle",
            swizzled.tiles_by_column,
            cell(0, 65),
            "merged",
        ),
        ("scale of the next block", "placement", swizzled.next_block, cell(0, 0), "merged"),
        ("scale of the next row", "placement", swizzled.next_row, cell(0, 0), "merged"),
        ("columns padded in front", "padding", swizzled.padded_in_front, cell(0, 0), "ragged"),
        ("rows padded above", "padding", swizzled.padded_above, cell(0, 0), "ragged"),
        (
            "columns beyond a tile lost",
            "padding",
            swizzled.last_columns_lost,
            cell(0, 321),
            "ragged",
        ),
        (
            "rows beyond a tile lost",
            "padding",
            swizzled.last_rows_lost,
            cell(128, 0, "up"),
            "ragged",
        ),
    )
]
_READ_SWIZZLED = [
    Fault(
        "scales cropped to K columns",
        "padding",
        in_code(dequantise, "unswizzle", swizzled.cropped_to_k),
        READ,
        (cell(0, 1),),
        ONLY,
        "ragged",
    ),
    Fault(
        "scales of x not swizzled",
        "swizzle",
        in_code(nvfp4_quant, "swizzle", swizzled.not_swizzled),
        READ,
        (cell(0, 1),),
        ONLY,
    ),
    Fault(
        "scales of x of the next block",
        "placement",
        in_code(nvfp4_quant, "swizzle", swizzled.next_block),
        READ,
        (cell(0, 0),),
        ONLY,
    ),
]
_GLOBAL = [
    Fault(name, kind, in_layer(edit), GRID, places, ONLY)
    for name, kind, edit, places in (
        ("alpha off by 1%", "scale", scales.one_percent, (WHOLE,)),
        ("one shard's alpha off by 1%", "scale", scales.one_percent_shard, (UP,)),
        ("largest alpha for all shards", "fold", scales.largest_for_all, (GATE,)),
        ("first shard's alpha for all", "fold", scales.of_first_shard, (UP,)),
        ("alphas of gate and up swapped", "fold", scales.swapped, (GATE, UP)),
        (
            "a row with the next shard's alpha",
            "fold",
            scales.boundary_off_by_one,
            (column(255, "gate"),),
        ),
        ("alpha missing", "fold", scales.alpha_missing, (WHOLE, GATE)),
        ("input scale missing in alpha", "fold", scales.input_scale_missing, (WHOLE,)),
        ("input scale twice in alpha", "fold", scales.input_scale_twice, (WHOLE,)),
        ("alpha inverted", "scale", scales.inverted, (GATE, UP)),
        ("alpha in bf16", "scale dtype", scales.alpha_in_bf16, (UP,)),
        ("each shard's own input scale in alpha", "fold", scales.own_input_scale, (GATE,)),
    )
]
_GLOBAL.append(
    Fault(
        "x quantised by gs / 2",
        "scale",
        in_layer(scales.quantised_by(2.0)),
        READ,
        (cell(0, 0),),
        ONLY,
    )
)
_INPUT = [
    Fault(
        name,
        "fold",
        in_code(nvfp4_linear, "check_input_scale", scales.folded_by(choose)),
        READ,
        (cell(0, 0),),
        ONLY,
    )
    for name, choose in (
        ("input scale of the first shard", lambda slots: slots[0]),
        ("mean of the input scales", lambda slots: slots.mean()),
    )
]
_BLOCKS = [
    Fault(
        "one block scale off by its last bit",
        "scale",
        in_layer(scales.block_byte(300, 7, 1)),
        READ,
        (cell(44, 112, "up"),),
        ONLY,
    ),
    *(
        Fault(name, kind, in_code(nvfp4_quant, "encode_e4m3", wrap), check, places, ONLY)
        for name, kind, wrap, check, places in (
            ("scales of x rounded down", "rounding", blocks.floored, NATURAL, (WHOLE,)),
            ("scales of x rounded up", "rounding", blocks.raised, NATURAL, (WHOLE,)),
            ("scales of x powers of two", "scale dtype", blocks.powers_of_two, NATURAL, (WHOLE,)),
        )
    ),
    *(
        Fault(name, "scale dtype", in_code(nvfp4_mm, "NVFP4", wrap), READ, (place,), ONLY)
        for name, wrap, place in (
            ("block scales read as e4m3fnuz", blocks.half_size, cell(0, 0)),
            ("block scales read as e5m2", blocks.wider_exponent, ("finite", output(0, 0, "gate"))),
            ("subnormal block scales lost", blocks.subnormals_lost, cell(4, 112)),
        )
    ),
]
_BLOCKS.append(
    # The rows of the lossless grid whose block scales are all subnormal.
    Fault(
        "subnormal scales of x lost",
        "range",
        in_code(nvfp4_quant, "encode_e4m3", blocks.at_least_normal),
        GRID,
        (("row", "row 9"), ("row", "row 12"), ("row", "row 24")),
        ONLY,
    )
)
_CODES = [
    Fault(
        "nibbles swapped",
        "placement",
        in_layer(four_bits.nibbles_swapped),
        READ,
        (cell(0, 0),),
        ONLY,
    ),
    Fault(
        "3 read as 2",
        "range",
        in_code(dequantise, "decode_packed", four_bits.read_as(5, 4)),
        READ,
        (cell(0, 1),),
        ONLY,
    ),
    Fault(
        "0.5 read as 0",
        "range",
        in_code(dequantise, "decode_packed", four_bits.read_as(1, 0)),
        READ,
        (cell(0, 6),),
        ONLY,
    ),
    Fault(
        "truncation",
        "rounding",
        in_code(nvfp4_quant, "encode", four_bits.truncated),
        NATURAL,
        (WHOLE,),
        ONLY,
    ),
    Fault(
        "half away from zero",
        "rounding",
        in_code(nvfp4_quant, "encode", four_bits.half_away),
        TIES,
        (WHOLE,),
        ONLY,
        "exact scale",
    ),
    Fault(
        "codes of 0.5 flushed",
        "range",
        in_code(nvfp4_quant, "encode", four_bits.halves_flushed),
        GRID,
        (ELEMENTS,),
        ONLY,
    ),
    Fault(
        "codes up to 4",
        "range",
        in_code(nvfp4_quant, "encode", four_bits.up_to_four),
        GRID,
        (WHOLE,),
        ONLY,
    ),
    Fault(
        "sign of the smallest codes lost",
        "range",
        in_code(nvfp4_quant, "encode", four_bits.sign_lost),
        GRID,
        (ELEMENTS,),
        ONLY,
    ),
    Fault(
        "rounded before alpha",
        "accumulation",
        in_product(blocks.rounded_before_alpha),
        GRID,
        (ELEMENTS,),
        ONLY,
    ),
    Fault(
        "one column off by 1%",
        "scale",
        in_product(products.one_column),
        GRID,
        (column(44, "up"),),
        ONLY,
    ),
]
_CONTAINED = block_scale_faults(ONLY, swizzled=True, nan=0x7F)
_SLOTS = [
    Fault(
        f"{suffix} takes the other shard's slot",
        "loader",
        in_stream(loading.renamed(suffix)),
        READ,
        (cell(0, 0),),
        ONLY,
    )
    for suffix in ("weight_scale", "weight_scale_2")
]
FAULTS = [
    *common.faults(
        ONLY,
        {
            "one code off by its last bit": {FORMAT: (cell(144, 154, "up"),)},
            "rows off by one": {FORMAT: (cell(0, 1),)},
        },
        dict.fromkeys(common.FLOAT_SCALES, ONLY)
        # What lies beyond the range of the global scale is 0 or saturates anyway.
        | {"x below 2^-20 flushed": ONLY, "x clamped to 10000": ONLY},
    ),
    *_CONTAINED,
    *_SWIZZLE,
    *_READ_SWIZZLED,
    *_GLOBAL,
    *_INPUT,
    *_BLOCKS,
    *_CODES,
    *_SLOTS,
]
