"""Faults to plant in a right MXFP8 or MXFP4 layer, the latter weight-only or W4A4."""

from __future__ import annotations

from layers.kernels.fp4 import dequantise, mxfp4_mm, mxfp4_quant
from layers.quantization import mxfp4
from testing.harness.linear import LinearCase
from testing.quant.fp8.methods import MXFP8
from testing.quant.mxfp4.methods import W4A4, W4A16
from testing.strength import common
from testing.strength.block_scales import block_scale_faults
from testing.strength.common import GRID, NATURAL, READ, TIES
from testing.strength.edits import block_bytes, four_bits, loading, products, swizzled
from testing.strength.fault import Fault
from testing.strength.fp8 import codes
from testing.strength.linear_bench import (
    LinearBench,
    in_code,
    in_layer,
    in_product,
    in_quantiser,
    in_stream,
)
from testing.strength.mx import powers
from testing.strength.places import ELEMENTS, WHOLE, cell, column, k_block

EIGHT, WEIGHT_ONLY, FOUR = "mxfp8", "mxfp4_w4a16", "mxfp4_w4a4"
METHODS = {EIGHT: MXFP8, WEIGHT_ONLY: W4A16, FOUR: W4A4}
BENCHES = {name: common.benches(method, "torch") for name, method in METHODS.items()}
for _name, _method in METHODS.items():
    # Neither rows nor scale columns fill their tiles.
    _shards = {"gate": 256, "up": 160}
    BENCHES[_name]["ragged"] = LinearBench(
        LinearCase(_method, "merged", 32, _shards, 352, backend="torch")
    )
ALL, DYNAMICS, FOURS = (EIGHT, WEIGHT_ONLY, FOUR), (EIGHT, FOUR), (WEIGHT_ONLY, FOUR)

_SWIZZLE = [
    Fault(name, kind, in_code(mxfp4, "swizzle", wrap), READ, (place,), FOURS, bench)
    for name, kind, wrap, place, bench in (
        ("scales not swizzled", "swizzle", swizzled.not_swizzled, cell(0, 128), "merged"),
        ("scales swizzled twice", "swizzle", swizzled.twice, cell(0, 128), "merged"),
        ("swizzle off by one byte", "swizzle", swizzled.off_by_one, cell(0, 0), "merged"),
        ("rows of a tile in fours", "swizzle", swizzled.rows_in_fours, cell(1, 1), "merged"),
        (
            "tiles down the columns first",
            "swizzle",
            swizzled.tiles_by_column,
            cell(0, 160),
            "merged",
        ),
        ("scale of the next block", "placement", swizzled.next_block, cell(0, 32), "merged"),
        ("scale of the next row", "placement", swizzled.next_row, cell(0, 0), "merged"),
        ("columns padded in front", "padding", swizzled.padded_in_front, cell(0, 0), "ragged"),
        ("rows padded above", "padding", swizzled.padded_above, cell(0, 0), "ragged"),
        (
            "columns beyond a tile lost",
            "padding",
            swizzled.last_columns_lost,
            cell(0, 256),
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
        (cell(1, 1),),
        FOURS,
        "ragged",
        {FOUR: (cell(0, 1),)},
    ),
    Fault(
        "scales of x not swizzled",
        "swizzle",
        in_code(mxfp4_quant, "swizzle", swizzled.not_swizzled),
        READ,
        (cell(0, 32),),
        (FOUR,),
    ),
    Fault(
        "scales of x of the next block",
        "placement",
        in_code(mxfp4_quant, "swizzle", swizzled.next_block),
        READ,
        (cell(0, 0),),
        (FOUR,),
    ),
    Fault(
        "block scales read as e4m3",
        "scale dtype",
        in_code(mxfp4_mm, "MXFP4", powers.read_as_e4m3),
        READ,
        (cell(0, 0),),
        (FOUR,),
    ),
]
_POWERS = [
    Fault(name, kind, in_layer(edit), check, (place,), formats)
    for name, kind, edit, check, place, formats in (
        (
            "one block scale doubled",
            "scale",
            powers.one_block_up(300, 7),
            READ,
            cell(44, 224, "up"),
            (EIGHT,),
        ),
        (
            "one block scale doubled, swizzled",
            "scale",
            powers.one_block_up_swizzled(300, 7),
            READ,
            cell(44, 226, "up"),
            FOURS,
        ),
        ("exponent counted from 128", "scale dtype", powers.bias_of_128, READ, cell(0, 0), ALL),
        (
            "scales of the next rows",
            "placement",
            powers.scales_of_next_rows,
            READ,
            cell(0, 0),
            (EIGHT,),
        ),
        (
            "scales of the next blocks",
            "placement",
            powers.scales_of_next_blocks,
            READ,
            cell(0, 64),
            (EIGHT,),
        ),
        ("nibbles swapped", "placement", four_bits.nibbles_swapped, READ, cell(0, 0), FOURS),
    )
]
_READ = [
    Fault(name, "range", in_code(dequantise, "decode_packed", wrap), READ, (place,), FOURS)
    for name, wrap, place in (
        ("3 read as 2", four_bits.read_as(5, 4), cell(0, 8)),
        ("0.5 read as 0", four_bits.read_as(1, 0), cell(0, 11)),
    )
]
_QUANTISER = [
    Fault(name, kind, in_quantiser(change), check, (place,), (EIGHT,))
    for name, kind, change, check, place in (
        ("truncation of e4m3", "rounding", codes.truncate, NATURAL, WHOLE),
        ("codes through e5m2", "rounding", codes.two_bits, NATURAL, WHOLE),
        ("subnormal codes flushed", "range", codes.smallest_codes_flushed, TIES, ELEMENTS),
        ("floor for ceiling", "scale dtype", powers.floor_for_ceiling, NATURAL, WHOLE),
        ("scales of x of the next group", "placement", block_bytes.next_block, READ, cell(0, 0)),
        ("scales of x doubled", "scale", block_bytes.doubled, READ, cell(0, 0)),
    )
]
_QUANTISER.append(
    Fault(
        "half away from zero in e4m3",
        "rounding",
        in_quantiser(codes.half_away_from_zero),
        TIES,
        (WHOLE, k_block(1)),
        (EIGHT,),
    )
)
_CODES = [
    Fault(name, kind, in_code(mxfp4_quant, function, wrap), check, (place,), (FOUR,))
    for name, kind, function, wrap, check, place in (
        ("truncation", "rounding", "encode", four_bits.truncated, NATURAL, WHOLE),
        ("half away from zero", "rounding", "encode", four_bits.half_away, TIES, WHOLE),
        ("codes of 0.5 flushed", "range", "encode", four_bits.halves_flushed, GRID, WHOLE),
        ("codes up to 4", "range", "encode", four_bits.up_to_four, NATURAL, WHOLE),
        ("sign of the smallest codes lost", "range", "encode", four_bits.sign_lost, GRID, WHOLE),
        (
            "ceiling for floor",
            "scale dtype",
            "encode_e8m0_floor",
            powers.ceiling_for_floor,
            NATURAL,
            WHOLE,
        ),
        (
            "even for floor",
            "scale dtype",
            "encode_e8m0_floor",
            powers.even_for_floor,
            NATURAL,
            WHOLE,
        ),
        (
            "largest exponent off by one",
            "scale dtype",
            "encode_e8m0_floor",
            powers.another_exponent,
            READ,
            cell(0, 0),
        ),
    )
]
_PRODUCT = [
    Fault(
        "one column off by 1%",
        "scale",
        in_product(products.one_column),
        GRID,
        (column(44, "up"),),
        ALL,
    ),
    *(
        Fault(
            f"{suffix} takes the other shard's slot",
            "loader",
            in_stream(loading.renamed(suffix)),
            READ,
            (cell(0, 0),),
            formats,
        )
        for suffix, formats in (("weight_scale", FOURS), ("weight_scale_inv", (EIGHT,)))
    ),
]
_NEVER: dict[str, tuple[str, ...]] = dict.fromkeys(common.FLOAT_SCALES, ALL)
# Without a quantiser of x there is none to go wrong.
_UNQUANTISED: dict[str, tuple[str, ...]] = {
    name: (WEIGHT_ONLY,) for name in common.OF_QUANTISER if name not in _NEVER
}
FAULTS = [
    *common.faults(
        ALL,
        {"one code off by its last bit": dict.fromkeys(FOURS, (cell(144, 154, "up"),))},
        _UNQUANTISED | _NEVER,
    ),
    *block_scale_faults((EIGHT,), swizzled=False, nan=0xFF),
    *block_scale_faults((FOUR,), swizzled=True, nan=0xFF, suffix=", swizzled"),
    *_SWIZZLE,
    *_READ_SWIZZLED,
    *_POWERS,
    *_READ,
    *_QUANTISER,
    *_CODES,
    *_PRODUCT,
]
