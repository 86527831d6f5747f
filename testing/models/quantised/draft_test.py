"""The module that drafts tokens, quantised as it is served, gives what its own codes stand for."""

from collections.abc import Callable
from functools import cache

import pytest
import torch

from layers.attention.mla.parts import split_by_head
from layers.models.causal_lm import CausalLM
from testing.models.quantised.configs import BLOCKED_DEEPSEEK
from testing.models.quantised.examine import Quantised

NAMES = ["int8_channel", "fp8_block"]
KINDS = [
    ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
    ("gate_proj", "up_proj"),
    ("o_proj",),
    ("down_proj",),
]
Patch = pytest.MonkeyPatch


@cache
def quantised(name: str) -> Quantised:
    return Quantised(BLOCKED_DEEPSEEK, name)


@pytest.mark.parametrize("name", NAMES)
def test_drafts_are_those_of_the_codes(name: str) -> None:
    assert quantised(name).problems_of_draft(quantised(name).seen_draft) == []


@pytest.mark.parametrize("name", NAMES)
def test_tensors_out_of_place_would_show(name: str) -> None:
    examined = quantised(name)
    for suffix in examined.suffixes:
        for kinds in KINDS:
            assert examined.problems_of_draft(examined.seen_draft, suffix, kinds), (suffix, kinds)


def scales_of_the_layer_before(model: CausalLM, patch: Patch) -> None:
    """The draft's experts have the last decoder layer's scales."""
    last, draft = (layer.mlp.experts for layer in list(model.model.layers)[-2:])
    for name, parameter in draft.named_parameters():
        if "scale" in name:
            patch.setattr(parameter, "data", last.get_parameter(name).data)


def absorbed_of_the_layer_before(model: CausalLM, patch: Patch) -> None:
    """The draft's latents are multiplied by the last decoder layer's kv_b_proj."""
    last, draft = (layer.self_attn.attn for layer in list(model.model.layers)[-2:])
    for name in ("w_kc", "w_vc"):
        patch.setattr(draft.get_parameter(name), "data", last.get_parameter(name).data)


def absorbed_codes(model: CausalLM, patch: Patch) -> None:
    """The draft's latents are multiplied by codes that nobody scaled, but for one factor."""
    attn = model.model.layers[-1].self_attn.attn
    made = split_by_head(unscaled(attn.kv_b_proj.dequantised_weight()), attn.spec)
    for name, weight in zip(("w_kc", "w_vc"), made, strict=True):
        patch.setattr(attn.get_parameter(name), "data", weight)


def unscaled(weight: torch.Tensor) -> torch.Tensor:
    """Each row as large as the mean of all."""
    size = weight.float().abs().amax(dim=1, keepdim=True)
    return weight.float() / size * size.mean()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "fault", [scales_of_the_layer_before, absorbed_of_the_layer_before, absorbed_codes]
)
def test_a_planted_fault_is_found(fault: Callable[[CausalLM, Patch], None], name: str) -> None:
    examined = quantised(name)
    with pytest.MonkeyPatch.context() as patch:
        fault(examined.model, patch)
        faulty = examined.draft(examined.model)
    assert examined.problems_of_draft(faulty)
    assert (examined.draft(examined.model).logits == examined.seen_draft.logits).all()
