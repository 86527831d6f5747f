"""Faults of heads, logits, the softmax and the values, and of what is written."""

from __future__ import annotations

from typing import Any

from testing.strength.attention import edits
from testing.strength.attention.bench import in_layer, in_step
from testing.strength.attention.fault import (
    BOTH,
    DENSE,
    AttentionFault,
    cache_fault,
    element,
    fault,
)

HEADS = [
    fault(
        "heads take key-value heads in turn",
        "heads",
        in_step("kv_head", edits.heads_in_turn),
        "query heads take key-value heads in turn",
    ),
    fault(
        "every head reads the next group",
        "heads",
        in_step("kv_head", edits.next_group),
        "k and v are the next kv head's",
        "decode",
        where=(element("request 0, all heads"),),
    ),
    fault(
        "one head reads the next group",
        "heads",
        in_step("kv_head", edits.head_of_the_next_group),
        "k and v are the next kv head's",
        where=(element("request 0, head 3,"), element("request 2, head 3,")),
    ),
    fault(
        "v of another head",
        "heads",
        in_step("weigh", edits.values_of_next_head),
        "v is the next kv head's",
    ),
    fault(
        "one head off by 1%",
        "scale",
        in_step("weigh", edits.gain_of_head),
        ("head", "head 5"),
    ),
    fault(
        "outputs of two requests swapped",
        "heads",
        in_layer("attend", edits.requests_swapped),
        element("request 0, all heads, all tokens"),
        "decode",
        where=(element("request 1, all heads, all tokens"),),
    ),
]

LOGITS = [
    fault(
        "scaling 1% too large",
        "scale",
        in_step("logits", edits.scaling_by(1.01)),
        "the scaling is 1.01",
    ),
    fault(
        "scaling 1% too small",
        "scale",
        in_step("logits", edits.scaling_by(0.99)),
        "the scaling is 0.99",
        "decode",
    ),
    fault(
        "scaling applied twice",
        "scale",
        in_step("logits", edits.scaled_twice),
        "the scaling is applied twice",
    ),
    fault("scaling missing", "scale", in_step("logits", edits.unscaled), "the scaling is missing"),
    fault(
        "everything 0.1% too large",
        "scale",
        in_step("weigh", edits.gain_of_all),
        ("gain", "the whole output"),
    ),
    fault(
        "soft cap missing",
        "softmax",
        in_step("logits", edits.uncapped),
        "the soft cap is missing",
        "cap",
    ),
    fault(
        "cap before scaling",
        "softmax",
        in_step("logits", edits.capped_unscaled),
        "the soft cap comes before the scaling",
        "cap",
    ),
]

SOFTMAX = [
    fault(
        "sinks missing",
        "sink",
        in_step("softmax", edits.no_sinks),
        "the sinks are missing",
        "sinks",
    ),
    fault(
        "sinks counted twice",
        "sink",
        in_step("softmax", edits.sinks_twice),
        "the sinks are counted twice",
        "sinks",
    ),
    fault(
        "sinks scaled",
        "sink",
        in_step("softmax", edits.sinks_scaled),
        "the sinks are scaled",
        "sinks",
    ),
    fault(
        "sinks of other heads",
        "sink",
        in_step("softmax", edits.sinks_of_other_heads),
        "the sinks are another head's",
        "sinks",
    ),
    fault(
        "splits merged without weights",
        "softmax",
        in_step("softmax", edits.halves_unweighted),
        "two halves of the keys are merged without their weights",
        "decode",
        DENSE,
    ),
    fault(
        "probabilities in bf16",
        "rounding",
        in_step("softmax", edits.weights_in_bf16),
        element("request 0"),
    ),
    fault(
        "output rounded twice",
        "rounding",
        in_step("weigh", edits.rounded_twice),
        element("request 0"),
        "fp16",
    ),
]


def __scale_fault(name: str, choose: Any, says: str) -> AttentionFault:
    return fault(name, "scale", in_step("gather", edits.scales_as(choose)), says, "fp8")


FP8 = [
    __scale_fault("k_scale ignored", lambda s, k, v: 1.0 if s == k else s, "k_scale is ignored"),
    __scale_fault("v_scale ignored", lambda s, k, v: 1.0 if s == v else s, "v_scale is ignored"),
    __scale_fault(
        "k_scale and v_scale swapped",
        lambda s, k, v: v if s == k else k,
        "k_scale and v_scale are swapped",
    ),
    __scale_fault(
        "k_scale twice", lambda s, k, v: s * s if s == k else s, "k_scale is applied twice"
    ),
]

CACHE = [
    cache_fault(
        "slots off by one", in_layer("write_cache", edits.slots_off_by_one), "written", "k, token 1"
    ),
    cache_fault(
        "slots off by one spill",
        in_layer("write_cache", edits.slots_off_by_one),
        "spilt",
        "k, slot 6 of the last page of request 2, past its length",
    ),
    cache_fault(
        "k stored as v",
        in_layer("write_cache", edits.keys_and_values_swapped),
        "written",
        "v, token 1 of request 0",
    ),
    cache_fault(
        "the slot before written too",
        in_layer("write_cache", edits.slot_before_too),
        "spilt",
        "k, token 0 of request 0",
    ),
    cache_fault(
        "nothing written",
        in_layer("write_cache", edits.nothing_written),
        "written",
        "k, token 1 of request 0",
        "decode",
    ),
    cache_fault(
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
