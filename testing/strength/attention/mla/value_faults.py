"""Faults of what MLA multiplies: scales, weights, the rotary part, rounding."""

from __future__ import annotations

from functools import partial

from testing.strength.attention import kinds
from testing.strength.attention.kinds import WHOLE
from testing.strength.attention.mla import edits
from testing.strength.attention.mla.bench import (
    ABSORBED,
    UNABSORBED,
    in_layer,
    in_loaded,
    in_projection,
    in_step,
)

reads = partial(kinds.reads, ("mla",))
shows = partial(kinds.shows, ("mla",))
cached = partial(shows, check="cache")

_LARGE = "the scale of the logits is 1 % too large"
_SMALL = "the scale of the logits is 1 % too small"
_FIRST = "the latent cache, token 20 of request 0"
_ROPE = 16

SCALES = [
    reads("scale 1 % too large", "scale", in_step(ABSORBED, "logits", edits.scaled(1.01)), _LARGE),
    reads(
        "scale 1 % too small in decode",
        "scale",
        in_step(ABSORBED, "logits", edits.scaled(0.99)),
        _SMALL,
        "decode",
    ),
    reads(
        "scale 1 % too large in prompts",
        "scale",
        in_step(UNABSORBED, "logits", edits.scaled(1.01)),
        _LARGE,
        "prompts",
    ),
    reads(
        "the scale of latents",
        "scale",
        in_step(ABSORBED, "logits", edits.scale_of_latents),
        "the scale is that of latents, (R + rope)^-1/2",
    ),
    reads(
        "the scale left out",
        "scale",
        in_step(ABSORBED, "logits", edits.unscaled),
        "the logits are not scaled",
        "decode",
    ),
    shows("kv_b_proj 1 % off", "scale", in_projection(edits.one_percent), WHOLE, bench="int8"),
    shows(
        "one row has its neighbour's scale",
        "scale",
        in_projection(edits.one_row),
        ("head", "head 1"),
        bench="int8",
    ),
    shows(
        "one block of R has another's scale",
        "scale",
        in_projection(edits.one_block),
        WHOLE,
        bench="fp8 block",
    ),
    shows(
        "the fp8 cache's scale ignored",
        "scale",
        in_step(ABSORBED, "gather", edits.scale_ignored),
        WHOLE,
        bench="fp8 cache",
    ),
]

ROTARY = [
    reads(
        "pairs of the other style",
        "placement",
        in_loaded(edits.other_style),
        "the pairs of the rotary part are those of the other style",
    ),
    cached(
        "pairs of the other style in the cache",
        "placement",
        in_loaded(edits.other_style),
        ("written", _FIRST),
    ),
    reads(
        "positions one too large",
        "placement",
        in_layer("rotate", edits.positions_by_one),
        "positions are one too large",
    ),
    reads(
        "queries not turned",
        "placement",
        in_layer("rotate", edits.queries_unturned),
        "the rotary part of queries is not turned",
    ),
    reads(
        "this call's keys not turned",
        "placement",
        in_layer("rotate", edits.keys_unturned),
        "the rotary part of this call's keys is not turned",
        "prompts",
    ),
    cached(
        "keys not turned in the cache",
        "placement",
        in_loaded(edits.cached_unturned),
        ("written", "the latent cache, token 1 of request 0"),
        bench="prompts",
    ),
    shows(
        "the rotary part's halves exchanged",
        "placement",
        in_layer("rotate", edits.halves_exchanged),
        WHOLE,
    ),
    reads(
        "the rotary part taken from the front",
        "placement",
        in_layer("forward", edits.front_turned(_ROPE)),
        "the rotary part of queries is taken from the front",
    ),
    reads(
        "the rotary part left out",
        "accumulation",
        in_step(ABSORBED, "logits", edits.without_rope_part(_ROPE)),
        "the rotary part is left out",
    ),
]

HEADS = [
    reads(
        "values of the next head",
        "heads",
        in_loaded(edits.values_of_the_next_head),
        "head h reads W_UV of head h + 1",
    ),
    reads(
        "keys of the next head",
        "heads",
        in_loaded(edits.keys_of_the_next_head),
        "head h reads W_UK of head h + 1",
    ),
    shows("one head of another", "heads", in_loaded(edits.one_head_of_another), ("head", "head 2")),
    reads(
        "W_UK and W_UV swapped",
        "placement",
        in_projection(edits.keys_and_values_swapped),
        "W_UK and W_UV are swapped",
        "square",
    ),
    reads(
        "W_UK transposed",
        "placement",
        in_loaded(edits.keys_transposed),
        "W_UK is transposed",
        "square",
    ),
    reads(
        "all keys, then all values",
        "placement",
        in_projection(edits.keys_of_all_heads_first),
        "kv_b_proj holds all keys, then all values",
    ),
]

ROUNDING = [
    shows(
        "probabilities in e5m2",
        "rounding",
        in_step(ABSORBED, "weigh", edits.halved_probabilities),
        WHOLE,
    ),
]
