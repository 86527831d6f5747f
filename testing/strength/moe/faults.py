"""Faults to plant in right fused MoE layers of every format."""

from __future__ import annotations

from layers.moe import topk
from testing.strength.fault import Fault
from testing.strength.moe import routing, stages, weights
from testing.strength.moe.bench import in_code, in_layer, in_router, in_stage, in_stream
from testing.strength.moe.formats import ALL, FLOAT_SCALES, PLAIN, SCALED
from testing.strength.places import ELEMENTS, WHOLE, Named

ROUTING, CONTAINMENT = "routing", "containment"
READ_13, READ_2 = "readback of gate and up", "readback of down"


def cells(*experts: int) -> tuple[Named, ...]:
    """Wrong weight cells in these experts."""
    return tuple(("cell", f"expert {e}") for e in experts)


_EVERY = cells(0, 1, 2, 3)
_BIASED: tuple[Named, ...] = tuple(("element", f"expert {e}") for e in range(4))
_TOKEN: Named = ("expert", "token 0")
_WEIGHT: Named = ("weight", "token 0")
_SHARED: Named = ("weight", "token 0, expert 8")
_EXPERT_1: tuple[Named, ...] = (("gain", "expert 1"), ("element", "expert 1"))

_ROUTER = [
    Fault(name, kind, in_router(change), ROUTING, (place,), PLAIN, bench, exact=False)
    for name, kind, change, place, bench in (
        ("experts off by one", "expert", routing.off_by_one, _TOKEN, "plain"),
        ("worst experts", "top-k", routing.smallest, _TOKEN, "plain"),
        ("the next choice for the last", "top-k", routing.last_choice_next, _TOKEN, "plain"),
        (
            "one token's experts in another order",
            "combine weights",
            routing.one_token_only,
            ("weight", "token 3"),
            "plain",
        ),
        ("correction bias ignored", "top-k", routing.correction_ignored, _TOKEN, "router"),
        (
            "correction bias weighs",
            "combine weights",
            routing.correction_weighs,
            _WEIGHT,
            "router",
        ),
        ("groups ignored", "top-k", routing.groups_ignored, _TOKEN, "router"),
        ("other scoring", "combine weights", routing.other_scoring, _WEIGHT, "plain"),
        ("not renormalised", "combine weights", routing.not_renormalised, _WEIGHT, "plain"),
        ("factor twice", "combine weights", routing.factor_twice, _WEIGHT, "router"),
        ("factor missing", "combine weights", routing.factor_missing, _WEIGHT, "router"),
        ("shared by the factor", "combine weights", routing.factor_of_shared, _SHARED, "router"),
        ("shared expert missing", "combine weights", routing.shared_missing, _SHARED, "router"),
        ("a routed for the shared", "expert", routing.shared_is_first, _TOKEN, "router"),
        ("weights in bf16", "scale dtype", routing.weights_in_bf16, _WEIGHT, "plain"),
        ("weights reversed", "combine weights", routing.weights_reversed, _WEIGHT, "plain"),
    )
]
_ROUTER += [
    Fault(
        "groups by their best expert",
        "top-k",
        in_code(topk, "best_of", routing.groups_by_best),
        ROUTING,
        (("expert", "token 3"),),
        PLAIN,
        "router",
        exact=False,
    ),
    Fault(
        "NaN of the router taken for zero",
        "containment",
        in_router(routing.nan_taken_for_zero),
        CONTAINMENT,
        (("spoilt", "row 0"), ("spoilt", "row 1")),
        PLAIN,
        "plain",
    ),
]

_ACTIVATION = [
    Fault(name, kind, in_stage("activate", change), "activation", places, PLAIN, bench)
    for name, kind, change, places, bench in (
        ("activation of up", "activation", stages.gate_for_up, (ELEMENTS,), "plain"),
        ("gelu for silu", "activation", stages.gelu, (WHOLE,), "plain"),
        ("activation rounded", "rounding", stages.activation_rounded, (ELEMENTS,), "plain"),
        ("gate and up in bf16", "rounding", stages.gate_up_rounded, (ELEMENTS,), "plain"),
        ("gate limited below", "activation", stages.clamp_on_both_sides, (ELEMENTS,), "gated"),
        ("up without 1", "activation", stages.one_missing, (WHOLE,), "gated"),
    )
]
_ACTIVATION += [
    # What goes wrong depends on each value, so what is named is no whole part.
    Fault(
        name,
        "activation",
        in_stage("activate", change),
        "activation",
        (place,),
        PLAIN,
        "gated",
        exact=False,
    )
    for name, change, place in (
        ("limit missing", stages.not_clamped, ("row", "row 20")),
        ("up limited above only", stages.up_clamped_above_only, ("row", "row 20")),
        ("alpha of 1", stages.alpha_of_one, ("column", "column 108")),
    )
]
_COMBINE = [
    Fault(
        name,
        kind,
        in_stage("combine", change),
        "combine",
        (place,),
        formats,
        "plain",
        exact=place == ELEMENTS,
    )
    for name, kind, change, place, formats in (
        ("weights applied twice", "combine weights", stages.weights_twice, WHOLE, ALL),
        ("weights not applied", "combine weights", stages.weights_missing, WHOLE, PLAIN),
        ("second product in bf16", "rounding", stages.down_rounded, ELEMENTS, ALL),
        ("sum over choices in bf16", "accumulation", stages.sum_in_bf16, ELEMENTS, PLAIN),
        ("last choice dropped", "accumulation", stages.last_choice_dropped, WHOLE, PLAIN),
        ("pairs of the next token", "placement", stages.tokens_shifted, ("row", "row 8"), PLAIN),
    )
]
_PRODUCTS = [
    Fault(name, kind, in_stage(stage, change), check, places, formats, bench, exact=exact)
    for name, kind, stage, change, check, places, formats, bench, exact in (
        *(
            (f"bias of {what} {how}", kind, stage, change, check, _BIASED, formats, "gated", False)
            for what, stage, check in (
                ("gate and up", "multiply_w13", "gate_up"),
                ("down", "multiply_w2", "down"),
            )
            for how, kind, change, formats in (
                ("missing", "loader", stages.bias_missing, ALL),
                ("twice", "accumulation", stages.bias_twice, PLAIN),
                ("of the next expert", "expert", stages.bias_of_next, PLAIN),
            )
        ),
        (
            "biases of gate and up swapped",
            "placement",
            "multiply_w13",
            stages.bias_halves_swapped,
            "gate_up",
            _BIASED,
            PLAIN,
            "gated",
            False,
        ),
        (
            "end of H dropped",
            "accumulation",
            "multiply_w13",
            stages.last_block_dropped,
            READ_13,
            _EVERY,
            ALL,
            "plain",
            True,
        ),
        (
            "end of I dropped",
            "accumulation",
            "multiply_w2",
            stages.last_block_dropped,
            READ_2,
            _EVERY,
            ALL,
            "plain",
            True,
        ),
        (
            "last pair unwritten",
            "padding",
            "multiply_w2",
            stages.one_pair_unwritten,
            "down",
            (("finite", "expert 2"),),
            PLAIN,
            "plain",
            True,
        ),
    )
]
_STORED = [
    Fault(name, kind, in_layer(edit), check, places, formats, "plain", exact=exact)
    for name, kind, edit, check, places, formats, exact in (
        *(
            (f"{what}{name}", kind, edit(matmul), check, places, formats, True)
            for what, matmul, check in (("gate and up: ", "w13", READ_13), ("down: ", "w2", READ_2))
            for name, kind, edit, places, formats in (
                ("two experts swapped", "expert", weights.experts_swapped, cells(1, 2), ALL),
                ("codes of the next expert", "expert", weights.codes_of_next, _EVERY, ALL),
                ("scales of the next expert", "fold", weights.scales_of_next, _EVERY, SCALED),
                ("one row stale", "loader", weights.one_row_stale, cells(2), ALL),
                ("one code wrong", "loader", weights.one_code, cells(3), ALL),
            )
        ),
        (
            "one expert's w13 scale off by 1%",
            "scale",
            weights.one_expert_scale("w13"),
            "gate_up",
            _EXPERT_1,
            FLOAT_SCALES,
            True,
        ),
        (
            "one expert's w2 scale off by 1%",
            "scale",
            weights.one_expert_scale("w2"),
            "down",
            _EXPERT_1,
            FLOAT_SCALES,
            True,
        ),
        ("gate and up swapped", "placement", weights.swapped, READ_13, _EVERY, ALL, False),
        ("up is gate", "placement", weights.up_is_gate, READ_13, _EVERY, ALL, False),
        ("rows in turn", "placement", weights.rows_in_turn, READ_13, _EVERY, ALL, True),
        ("gate's scales for up", "fold", weights.scales_of_gate, READ_13, _EVERY, SCALED, True),
    )
]
_LOADED = [
    Fault(name, "loader", in_stream(change), READ_13, _EVERY, ALL, "plain", exact=exact)
    for name, change, exact in (
        ("experts shifted by one", weights.experts_shifted, True),
        ("w1 and w3 renamed", weights.gate_and_up_renamed, False),
    )
]
FAULTS = [*_ROUTER, *_ACTIVATION, *_COMBINE, *_PRODUCTS, *_STORED, *_LOADED]
