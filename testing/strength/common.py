"""Faults that a layer of most formats can have, merged of two shards.

gate and up have 256 rows each, K is 512.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from testing.harness.linear import LinearCase, Method
from testing.strength.edits import activations, loading, products, weights
from testing.strength.fault import Bench, Fault, Plant
from testing.strength.linear_bench import (
    LinearBench,
    in_layer,
    in_product,
    in_quantiser,
    in_stream,
)
from testing.strength.places import (
    ELEMENTS,
    GATE,
    SPREAD,
    UP,
    WHOLE,
    Named,
    cell,
    column,
    k_block,
    output,
    tile,
)

GRID, READ, NATURAL = "lossless grid", "one-hot readback", "natural data"
TIES, RANGE, CONTAINMENT, ZEROS = "ties", "range of x", "containment", "row of zeros"


def benches(method: Method, backend: str | None = None) -> dict[str, Bench]:
    """The merged layer, and one with a bias."""
    merged = LinearCase(method, "merged", 32, {"gate": 256, "up": 256}, 512, backend=backend)
    return {"merged": LinearBench(merged), "bias": LinearBench(replace(merged, bias=True))}


# Faults of scales that are floats, weights' and activations'.
FLOAT_SCALES = (
    "NaN in every row",
    "division by a zero row",
    "one shard's scale off by 1%",
    "one token's scale off by 1%",
    "scale off by 1%",
    "scales kept in bf16",
)


def _fault(
    name: str,
    kind: str,
    plant: Plant,
    check: str,
    *places: Named,
    bench: str = "merged",
) -> Fault:
    return Fault(name, kind, plant, check, places, (), bench)


_STORED = [
    _fault("scale off by 1%", "scale", in_layer(weights.one_percent), GRID, WHOLE),
    _fault("one shard's scale off by 1%", "scale", in_layer(weights.one_percent_shard), GRID, UP),
    _fault(
        "one tile never written",
        "loader",
        in_layer(weights.one_tile_stale),
        GRID,
        tile(1, 2, "gate"),
    ),
    _fault(
        "one weight row shifted",
        "placement",
        in_layer(weights.one_weight_row),
        GRID,
        column(17, "gate"),
    ),
    _fault(
        "one code off by its last bit",
        "loader",
        in_layer(weights.flip(400, 77, 1)),
        READ,
        cell(144, 77, "up"),
    ),
    _fault("gate and up swapped", "placement", in_layer(weights.swap_shards), GRID, GATE, UP),
    _fault(
        "another shard's scale",
        "fold",
        in_layer(weights.scale_of_other_shard),
        READ,
        cell(0, 0, "up"),
    ),
    _fault(
        "scales of gate and up swapped", "fold", in_layer(weights.scales_swapped), READ, cell(0, 0)
    ),
    _fault("scales kept in bf16", "scale dtype", in_layer(weights.scale_in_bf16), READ, cell(0, 0)),
    _fault("rows off by one", "placement", in_layer(weights.rows_off_by_one), READ, cell(0, 0)),
    _fault(
        "bias of the other shard",
        "placement",
        in_layer(weights.bias_of_other_shard),
        ZEROS,
        ("zeros", "row 1"),
        bench="bias",
    ),
]

_LOADED = [
    _fault("gate and up renamed", "loader", in_stream(loading.shards_renamed), GRID, GATE, UP),
    _fault(
        "last K block of a shard cut off",
        "loader",
        in_stream(loading.last_k_block_zero),
        GRID,
        k_block(3, "up"),
    ),
    _fault(
        "a shard forgotten",
        "loader",
        loading.shard_forgotten,
        READ,
        ("finite", output(0, 0, "up")),
    ),
]

_ACTIVATIONS = [
    _fault(
        "one token's scale off by 1%",
        "scale",
        in_quantiser(activations.one_token_scale),
        GRID,
        ("row", "row 5"),
    ),
    _fault(
        "x below 2^-20 flushed",
        "range",
        in_quantiser(activations.small_x_flushed),
        RANGE,
        ("element", "rows 0, 1, 2"),
    ),
    _fault(
        "x clamped to 10000",
        "range",
        in_quantiser(activations.large_x_clamped),
        RANGE,
        ("element", "rows 3, 4"),
    ),
    _fault(
        "NaN in every row",
        "containment",
        in_quantiser(activations.nan_everywhere),
        CONTAINMENT,
        SPREAD,
    ),
    _fault(
        "NaN and Inf swallowed",
        "containment",
        in_quantiser(activations.nan_swallowed),
        CONTAINMENT,
        ("spoilt", "row 31"),
        ("spoilt", "row 0"),
        ("spoilt", "row 2"),
    ),
    _fault(
        "Inf swallowed",
        "containment",
        in_quantiser(activations.inf_swallowed),
        CONTAINMENT,
        ("spoilt", "row 0"),
        ("spoilt", "row 2"),
    ),
    _fault(
        "division by a zero row",
        "containment",
        in_quantiser(activations.zero_rows_divide),
        ZEROS,
        ("finite", output(1, 0, "gate")),
    ),
    _fault(
        "strides of x ignored",
        "containment",
        in_quantiser(activations.strides_ignored),
        "padding",
        ("element", output(1, 0, "gate")),
    ),
    _fault(
        "x overwritten",
        "memory",
        in_quantiser(activations.x_overwritten),
        "memory",
        ("memory", "x"),
    ),
]

_PRODUCTS = [
    _fault(
        "last K block dropped",
        "accumulation",
        in_product(products.drop_last_k_block),
        GRID,
        k_block(3),
    ),
    _fault(
        "last columns unwritten",
        "padding",
        in_product(products.last_columns_unwritten),
        GRID,
        ("finite", output(0, 128, "up")),
    ),
    _fault("output rounded twice", "rounding", in_product(products.round_twice), GRID, ELEMENTS),
    _fault(
        "partial sums in bf16", "accumulation", in_product(products.sums_in_bf16), GRID, ELEMENTS
    ),
    _fault(
        "one output for all calls",
        "memory",
        in_layer(products.output_shared),
        "memory",
        ("memory", "output"),
    ),
]

OF_QUANTISER = tuple(fault.name for fault in _ACTIVATIONS)
"""Faults that need a quantiser of x."""


def faults(
    formats: Sequence[str],
    places_in: Mapping[str, Mapping[str, tuple[Named, ...]]] | None = None,
    without: Mapping[str, Sequence[str]] | None = None,
) -> list[Fault]:
    """The faults of these formats.

    places_in: {fault's name: {format: what is named}} where the codes' own values decide on it.
    without: {fault's name: formats that cannot have it}.

    Raises:
        ValueError: a name that no fault has.
    """
    places_in, without = places_in or {}, without or {}
    every = [*_STORED, *_LOADED, *_ACTIVATIONS, *_PRODUCTS]
    unknown = {*places_in, *without} - {fault.name for fault in every}
    if unknown:
        raise ValueError(f"no fault is called {sorted(unknown)}: {[f.name for f in every]}")
    return [
        replace(
            fault,
            formats=tuple(f for f in formats if f not in without.get(fault.name, ())),
            places_in=places_in.get(fault.name, {}),
        )
        for fault in every
    ]
