"""Faults to plant in right MLA layers: in the torch backends, the layer's steps and post-load."""

from __future__ import annotations

from testing.strength.attention.mla import edits
from testing.strength.attention.mla.bench import (
    ABSORBED,
    UNABSORBED,
    in_layer,
    in_loaded,
    in_projection,
    in_step,
)
from testing.strength.fault import Fault, Plant
from testing.strength.places import Named

FORMATS = ("mla",)
WHOLE: Named = ("whole", "the whole output")
_ROPE = 16


def _reads(name: str, kind: str, plant: Plant, reading: str, bench: str = "extend") -> Fault:
    """A fault that has to be explained by this reading and no other."""
    return Fault(name, kind, plant, "reading", (("reading", reading),), FORMATS, bench)


def _shows(name: str, kind: str, plant: Plant, place: Named, bench: str = "extend") -> Fault:
    """A fault that no reading explains, but whose place has to be named."""
    return Fault(name, kind, plant, "output", (place,), FORMATS, bench, exact=False)


def _cache(name: str, kind: str, plant: Plant, *places: Named, bench: str = "extend") -> Fault:
    return Fault(name, kind, plant, "cache", places, FORMATS, bench, exact=False)


_LARGE = "the scale of the logits is 1 % too large"
_SMALL = "the scale of the logits is 1 % too small"
_FIRST = "the latent cache, token 20 of request 0"

_SCALES = [
    _reads("scale 1 % too large", "scale", in_step(ABSORBED, "logits", edits.scaled(1.01)), _LARGE),
    _reads(
        "scale 1 % too small in decode",
        "scale",
        in_step(ABSORBED, "logits", edits.scaled(0.99)),
        _SMALL,
        "decode",
    ),
    _reads(
        "scale 1 % too large in prompts",
        "scale",
        in_step(UNABSORBED, "logits", edits.scaled(1.01)),
        _LARGE,
        "prompts",
    ),
    _reads(
        "the scale of latents",
        "scale",
        in_step(ABSORBED, "logits", edits.scale_of_latents),
        "the scale is that of latents, (R + rope)^-1/2",
    ),
    _reads(
        "the scale left out",
        "scale",
        in_step(ABSORBED, "logits", edits.unscaled),
        "the logits are not scaled",
        "decode",
    ),
    _shows("kv_b_proj 1 % off", "scale", in_projection(edits.one_percent), WHOLE, "int8"),
    _shows(
        "one row has its neighbour's scale",
        "scale",
        in_projection(edits.one_row),
        ("head", "head 1"),
        "int8",
    ),
    _shows(
        "one block of R has another's scale",
        "scale",
        in_projection(edits.one_block),
        WHOLE,
        "fp8 block",
    ),
    _shows(
        "the fp8 cache's scale ignored",
        "scale",
        in_step(ABSORBED, "gather", edits.scale_ignored),
        WHOLE,
        "fp8 cache",
    ),
]

_ROTARY = [
    _reads(
        "pairs of the other style",
        "placement",
        in_loaded(edits.other_style),
        "the pairs of the rotary part are those of the other style",
    ),
    _cache(
        "pairs of the other style in the cache",
        "placement",
        in_loaded(edits.other_style),
        ("written", _FIRST),
    ),
    _reads(
        "positions one too large",
        "placement",
        in_layer("rotate", edits.positions_by_one),
        "positions are one too large",
    ),
    _reads(
        "queries not turned",
        "placement",
        in_layer("rotate", edits.queries_unturned),
        "the rotary part of queries is not turned",
    ),
    _reads(
        "this call's keys not turned",
        "placement",
        in_layer("rotate", edits.keys_unturned),
        "the rotary part of this call's keys is not turned",
        "prompts",
    ),
    _cache(
        "keys not turned in the cache",
        "placement",
        in_loaded(edits.cached_unturned),
        ("written", "the latent cache, token 1 of request 0"),
        bench="prompts",
    ),
    _shows(
        "the rotary part's halves exchanged",
        "placement",
        in_layer("rotate", edits.halves_exchanged),
        WHOLE,
    ),
    _reads(
        "the rotary part taken from the front",
        "placement",
        in_layer("forward", edits.front_turned(_ROPE)),
        "the rotary part of queries is taken from the front",
    ),
    _reads(
        "the rotary part left out",
        "accumulation",
        in_step(ABSORBED, "logits", edits.without_rope_part(_ROPE)),
        "the rotary part is left out",
    ),
]

_AHEAD = "a query sees one key ahead of itself"
_OWN = "a query does not see its own key"
_LAST = "a request's last key is not seen"
_MASKS = [
    _reads("one key ahead", "mask", in_step(ABSORBED, "visible", edits.one_ahead), _AHEAD),
    _reads("own key unseen", "mask", in_step(ABSORBED, "visible", edits.own_unseen), _OWN),
    # Which is the same in a decode.
    Fault(
        "own key unseen in decode",
        "mask",
        in_step(ABSORBED, "visible", edits.own_unseen),
        "reading",
        (("reading", _OWN), ("reading", _LAST)),
        FORMATS,
        "decode",
    ),
    _reads(
        "one key ahead in prompts",
        "mask",
        in_step(UNABSORBED, "visible", edits.one_ahead),
        _AHEAD,
        "prompts",
    ),
    _reads(
        "not causal", "mask", in_step(ABSORBED, "visible", edits.all_seen), "a query sees all keys"
    ),
    _reads(
        "draft mask ignored",
        "mask",
        in_step(ABSORBED, "draft_visible", edits.mask_ignored),
        "a query sees all keys",
        "tree",
    ),
    _reads(
        "a chain's mask ignored",
        "mask",
        in_step(ABSORBED, "draft_visible", edits.mask_ignored),
        "a query sees all keys",
        "chain",
    ),
    _reads(
        "a tree taken for a chain",
        "mask",
        in_step(ABSORBED, "draft_visible", edits.chain_for_tree),
        "drafts see each other as a chain",
        "tree",
    ),
    _reads(
        "last key lost",
        "length",
        in_step(ABSORBED, "softmax", edits.last_key_lost),
        _LAST,
    ),
]

_PAGES = [
    _reads(
        "pages swapped",
        "page",
        in_step(ABSORBED, "pages_of", edits.pages_swapped),
        "a request's first two pages are swapped",
    ),
    _shows(
        "a page of the next request",
        "page",
        in_step(ABSORBED, "pages_of", edits.pages_of_the_next),
        ("request", "request 1"),
    ),
    _shows(
        "a page that nobody owns",
        "page",
        in_step(ABSORBED, "pages_of", edits.page_past_the_last),
        ("finite", "all tokens; all heads"),
    ),
    _shows(
        "slots past the length read",
        "containment",
        in_step(ABSORBED, "gather", edits.whole_pages),
        ("finite", "all tokens; all heads"),
        "chain",
    ),
]

_HEADS = [
    _reads(
        "values of the next head",
        "heads",
        in_loaded(edits.values_of_the_next_head),
        "head h reads W_UV of head h + 1",
    ),
    _reads(
        "keys of the next head",
        "heads",
        in_loaded(edits.keys_of_the_next_head),
        "head h reads W_UK of head h + 1",
    ),
    _shows(
        "one head of another", "heads", in_loaded(edits.one_head_of_another), ("head", "head 2")
    ),
    _reads(
        "W_UK and W_UV swapped",
        "placement",
        in_projection(edits.keys_and_values_swapped),
        "W_UK and W_UV are swapped",
        "square",
    ),
    _reads(
        "W_UK transposed",
        "placement",
        in_loaded(edits.keys_transposed),
        "W_UK is transposed",
        "square",
    ),
    _reads(
        "all keys, then all values",
        "placement",
        in_projection(edits.keys_of_all_heads_first),
        "kv_b_proj holds all keys, then all values",
    ),
]

_SLOTS = [
    _cache(
        "a slot late",
        "slot",
        in_layer("write_cache", edits.slot_late),
        ("written", _FIRST),
        ("spilt", "the latent cache, slot 15 of the last page of request 3, past its length"),
    ),
    _cache(
        "the last token unwritten",
        "slot",
        in_layer("write_cache", edits.last_unwritten),
        ("written", "the latent cache, token 46 of request 3"),
    ),
    _cache(
        "written twice",
        "slot",
        in_layer("write_cache", edits.written_twice),
        ("spilt", "the latent cache, slot 0 of page 0, which no request owns"),
    ),
    _cache(
        "the rotated key first",
        "placement",
        in_layer("write_cache", edits.rotated_key_first),
        ("written", _FIRST),
    ),
    Fault(
        "q overwritten",
        "memory",
        in_layer("forward", edits.q_overwritten),
        "memory",
        (("memory", "q"),),
        FORMATS,
        "extend",
    ),
]

_ROUNDING = [
    _shows(
        "probabilities in e5m2",
        "rounding",
        in_step(ABSORBED, "weigh", edits.halved_probabilities),
        WHOLE,
    ),
]

FAULTS = [*_SCALES, *_ROTARY, *_MASKS, *_PAGES, *_HEADS, *_SLOTS, *_ROUNDING]
