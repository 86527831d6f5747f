"""Faults to plant in right attention layers, dense and in a window of 13 keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from testing.strength.attention import edits
from testing.strength.attention.bench import benches, in_layer, in_step
from testing.strength.attention.fault import AttentionFault
from testing.strength.fault import Plant
from testing.strength.places import Named

WINDOW = 13
BENCHES = {"dense": benches(None), "swa": benches(WINDOW)}
BOTH, DENSE, SWA = ("dense", "swa"), ("dense",), ("swa",)


def _fault(
    name: str,
    kind: str,
    plant: Plant,
    says: str | Named,
    bench: str = "extend",
    formats: tuple[str, ...] = BOTH,
    where: tuple[Named, ...] = (),
    says_in: Mapping[str, str] | None = None,
) -> AttentionFault:
    """says: a reading, or (family, place) of the output; says_in: the reading by format."""
    check, place = ("reading", ("reading", says)) if isinstance(says, str) else ("output", says)
    places_in = {fmt: (("reading", text),) for fmt, text in (says_in or {}).items()}
    return AttentionFault(
        name, kind, plant, check, (place,), formats, bench, places_in, True, where
    )


def _cache(
    name: str, plant: Plant, family: str, place: str, bench: str = "extend"
) -> AttentionFault:
    return AttentionFault(name, "slot", plant, "cache", ((family, place),), BOTH, bench)


def _element(place: str) -> Named:
    return "element", place


_MASKS = [
    _fault(
        "a query sees one key ahead",
        "mask",
        in_step("visible", edits.one_key_ahead),
        "a query sees one key ahead of itself",
        where=(_element("request 0, all heads"), _element("request 1, all heads")),
    ),
    _fault(
        "a query does not see its own key",
        "mask",
        in_step("visible", edits.own_key_unseen),
        "a query does not see its own key",
        where=(_element("request 0, all heads, all tokens"),),
    ),
    _fault(
        "a decoded token does not see its own key",
        "mask",
        in_step("visible", edits.own_key_unseen),
        "a query does not see its own key",
        "decode",
    ),
    _fault(
        "the mask is not causal",
        "mask",
        in_step("visible", edits.not_causal),
        "the mask is not causal",
    ),
    _fault(
        "the window is one key larger",
        "mask",
        in_step("visible", edits.window_by(1)),
        "the window is 14 in place of 13",
        formats=SWA,
    ),
    _fault(
        "the window is one key smaller",
        "mask",
        in_step("visible", edits.window_by(-1)),
        "the window is 12 in place of 13",
        "decode",
        SWA,
    ),
    _fault(
        "the window is passed over",
        "mask",
        in_step("visible", edits.window_by(None)),
        "there is no window",
        "decode",
        SWA,
        where=(_element("request 1, all heads"), _element("request 3, all heads")),
    ),
    _fault(
        "the last key of one request is not seen",
        "length",
        in_step("seen_keys", edits.last_key_unseen),
        "the request's last key is not seen",
        where=(_element("request 1, all heads, token 16"),),
    ),
    _fault(
        "a decoding request is one key short",
        "length",
        in_step("seen_keys", edits.last_key_unseen),
        "the request's last key is not seen",
        "decode",
        where=(_element("request 1, all heads"),),
    ),
]

_DRAFTS = [
    _fault(
        "the tree is transposed",
        "mask",
        in_step("draft_visible", edits.tree_as(lambda mask: mask.T)),
        "the drafts' mask is transposed",
        "draft",
        where=(_element("request 2, all heads"),),
    ),
    _fault(
        "the tree shows everything",
        "mask",
        in_step("draft_visible", edits.tree_as(torch.ones_like)),
        "drafts see all drafts",
        "draft",
    ),
    _fault(
        "a chain shows everything",
        "mask",
        in_step("draft_visible", edits.tree_as(torch.ones_like)),
        "drafts see all drafts",
        "chain",
    ),
    _fault(
        "the tree's mask is passed over",
        "mask",
        in_step("draft_visible", edits.tree_as(lambda mask: torch.ones_like(mask).tril())),
        "the drafts' mask is taken for a chain",
        "draft",
    ),
    _fault(
        "drafts do not see the prefix",
        "mask",
        in_step("draft_visible", edits.prefix_unseen),
        "drafts do not see the prefix",
        "draft",
    ),
    _fault(
        "drafts stand at their slots",
        "mask",
        in_step("draft_visible", edits.by_slot),
        "the window counts drafts by slot and not by position",
        "draft",
        SWA,
    ),
]

_PAGES = [
    _fault(
        "a page read twice",
        "page",
        in_step("pages_of", edits.first_page_again),
        "keys 16..31 of request 1, its page 1, are missing or another's",
        where=(_element("request 1, all heads"),),
    ),
    _fault(
        "a page that nobody owns",
        "page",
        in_step("pages_of", edits.page_of_nobody),
        ("finite", "request 1, all heads"),
    ),
    _fault(
        "slots past the length weighed by zero",
        "page",
        in_step("gather", edits.past_the_end),
        ("finite", "request 0, all heads"),
        "decode",
    ),
]

_HEADS = [
    _fault(
        "heads take key-value heads in turn",
        "heads",
        in_step("kv_head", edits.heads_in_turn),
        "query heads take key-value heads in turn",
    ),
    _fault(
        "every head reads the next group",
        "heads",
        in_step("kv_head", edits.next_group),
        "k and v are the next kv head's",
        "decode",
        where=(_element("request 0, all heads"),),
    ),
    _fault(
        "one head reads the next group",
        "heads",
        in_step("kv_head", edits.head_of_the_next_group),
        "k and v are the next kv head's",
        where=(_element("request 0, head 3,"), _element("request 2, head 3,")),
    ),
    _fault(
        "v of another head",
        "heads",
        in_step("weigh", edits.values_of_next_head),
        "v is the next kv head's",
    ),
    _fault(
        "one head off by 1%",
        "scale",
        in_step("weigh", edits.gain_of_head),
        ("head", "head 5"),
    ),
    _fault(
        "outputs of two requests swapped",
        "heads",
        in_layer("attend", edits.requests_swapped),
        _element("request 0, all heads, all tokens"),
        "decode",
        where=(_element("request 1, all heads, all tokens"),),
    ),
]

_LOGITS = [
    _fault(
        "scaling 1% too large",
        "scale",
        in_step("logits", edits.scaling_by(1.01)),
        "the scaling is 1.01",
    ),
    _fault(
        "scaling 1% too small",
        "scale",
        in_step("logits", edits.scaling_by(0.99)),
        "the scaling is 0.99",
        "decode",
    ),
    _fault(
        "scaling applied twice",
        "scale",
        in_step("logits", edits.scaled_twice),
        "the scaling is applied twice",
    ),
    _fault("scaling missing", "scale", in_step("logits", edits.unscaled), "the scaling is missing"),
    _fault(
        "everything 0.1% too large",
        "scale",
        in_step("weigh", edits.gain_of_all),
        ("gain", "the whole output"),
    ),
    _fault(
        "soft cap missing",
        "softmax",
        in_step("logits", edits.uncapped),
        "the soft cap is missing",
        "cap",
    ),
    _fault(
        "cap before scaling",
        "softmax",
        in_step("logits", edits.capped_unscaled),
        "the soft cap comes before the scaling",
        "cap",
    ),
]

_SOFTMAX = [
    _fault(
        "sinks missing",
        "sink",
        in_step("softmax", edits.no_sinks),
        "the sinks are missing",
        "sinks",
    ),
    _fault(
        "sinks counted twice",
        "sink",
        in_step("softmax", edits.sinks_twice),
        "the sinks are counted twice",
        "sinks",
    ),
    _fault(
        "sinks scaled",
        "sink",
        in_step("softmax", edits.sinks_scaled),
        "the sinks are scaled",
        "sinks",
    ),
    _fault(
        "sinks of other heads",
        "sink",
        in_step("softmax", edits.sinks_of_other_heads),
        "the sinks are another head's",
        "sinks",
    ),
    _fault(
        "splits merged without weights",
        "softmax",
        in_step("softmax", edits.halves_unweighted),
        "two halves of the keys are merged without their weights",
        "decode",
        DENSE,
    ),
    _fault(
        "probabilities in bf16",
        "rounding",
        in_step("softmax", edits.weights_in_bf16),
        _element("request 0"),
    ),
    _fault(
        "output rounded twice",
        "rounding",
        in_step("weigh", edits.rounded_twice),
        _element("request 0"),
        "fp16",
    ),
]


def _scale_fault(name: str, choose: Any, says: str) -> AttentionFault:
    return _fault(name, "scale", in_step("gather", edits.scales_as(choose)), says, "fp8")


_FP8 = [
    _scale_fault("k_scale ignored", lambda s, k, v: 1.0 if s == k else s, "k_scale is ignored"),
    _scale_fault("v_scale ignored", lambda s, k, v: 1.0 if s == v else s, "v_scale is ignored"),
    _scale_fault(
        "k_scale and v_scale swapped",
        lambda s, k, v: v if s == k else k,
        "k_scale and v_scale are swapped",
    ),
    _scale_fault(
        "k_scale twice", lambda s, k, v: s * s if s == k else s, "k_scale is applied twice"
    ),
]

_CACHE = [
    _cache(
        "slots off by one", in_layer("write_cache", edits.slots_off_by_one), "written", "k, token 1"
    ),
    _cache(
        "slots off by one spill",
        in_layer("write_cache", edits.slots_off_by_one),
        "spilt",
        "k, slot 6 of the last page of request 2, past its length",
    ),
    _cache(
        "k stored as v",
        in_layer("write_cache", edits.keys_and_values_swapped),
        "written",
        "v, token 1 of request 0",
    ),
    _cache(
        "the slot before written too",
        in_layer("write_cache", edits.slot_before_too),
        "spilt",
        "k, token 0 of request 0",
    ),
    _cache(
        "nothing written",
        in_layer("write_cache", edits.nothing_written),
        "written",
        "k, token 1 of request 0",
        "decode",
    ),
    _cache(
        "keys encoded under another scale",
        in_layer("write_cache", edits.scale_doubled),
        "written",
        "k, token 1 of request 0",
        "fp8",
    ),
    AttentionFault(
        "q overwritten",
        "memory",
        in_layer("attend", edits.queries_overwritten),
        "memory",
        (("memory", "q"),),
        BOTH,
        "decode",
    ),
]

FAULTS = [*_MASKS, *_DRAFTS, *_PAGES, *_HEADS, *_LOGITS, *_SOFTMAX, *_FP8, *_CACHE]
