"""The parameter, shard and expert of a checkpoint's name, and lists of names in messages."""

import pytest

from layers.listing import compress
from layers.moe.names import Place, place_of

PLACES = {
    "3.w1.weight": Place("w13_weight", "w1", 3),
    "3.w3.weight": Place("w13_weight", "w3", 3),
    "3.w2.weight": Place("w2_weight", "w2", 3),
    "12.gate_proj.weight_scale_inv": Place("w13_weight_scale_inv", "w1", 12),
    "0.up_proj.input_scale": Place("w13_input_scale", "w3", 0),
    "0.down_proj.weight_scale_2": Place("w2_weight_scale_2", "w2", 0),
    "7.gate_up_proj.weight": Place("w13_weight", "w13", 7),
    "1.down_proj.bias": Place("w2_bias", "w2", 1),
    "gate_up_proj": Place("w13_weight", "w13", None),
    "gate_up_proj_blocks": Place("w13_weight", "w13", None),
    "gate_up_proj_scales": Place("w13_weight_scale", "w13", None),
    "gate_up_proj_bias": Place("w13_bias", "w13", None),
    "down_proj_blocks": Place("w2_weight", "w2", None),
    "w13_weight": Place("w13_weight", "w13", None),
    "w2_weight_scale": Place("w2_weight_scale", "w2", None),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_name_has_its_place(name: str) -> None:
    assert place_of(name) == PLACES[name]


@pytest.mark.parametrize(
    "name", ["weight", "3.weight", "3.gate.weight", "-1.w4.weight", "w1s.weight"]
)
def test_another_name_has_none(name: str) -> None:
    assert place_of(name) is None


def test_experts_that_lack_the_same_tensor_are_listed_together() -> None:
    names = [f"'w2[expert {expert}]' shard 'w2'" for expert in (0, 1, 2, 5)] + ["'norm.weight'"]

    assert compress(names) == "'w2[experts 0-2, 5]' shard 'w2', 'norm.weight'"


def test_a_single_expert_is_listed_as_it_is() -> None:
    assert compress(["'w2[expert 7]'"]) == "'w2[expert 7]'"
