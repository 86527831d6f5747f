"""gpt-oss with experts in MXFP4, as published, gives what its blocks and scales stand for."""

import pytest
import torch

from testing.models.mxfp4 import Mxfp4Examination, values_of
from testing.oracles.models.configs import GPT_OSS

EXAMINED = Mxfp4Examination(GPT_OSS)
PARTS = [f"{m}_{part}" for m in ("gate_up_proj", "down_proj") for part in ("blocks", "scales")]


def test_prompts_in_chunks_and_tokens_one_by_one() -> None:
    assert EXAMINED.problems() == []


def test_prompts_at_once() -> None:
    assert EXAMINED.problems_whole() == []


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_tensor_out_of_place_would_show(part: str, dim: int) -> None:
    # Experts, rows or blocks one further on.
    for layer in range(2):
        name = f"model.layers.{layer}.mlp.experts.{part}"
        altered = {**EXAMINED.stored, name: EXAMINED.stored[name].roll(1, dim)}
        assert EXAMINED.problems_if(values_of(altered)), name


def test_gate_and_up_lie_in_turn() -> None:
    name = "model.layers.1.mlp.experts.gate_up_proj_blocks"
    blocks = EXAMINED.stored[name]
    halves = torch.cat((blocks[:, 0::2], blocks[:, 1::2]), dim=1)
    assert EXAMINED.problems_if(values_of({**EXAMINED.stored, name: halves}))


def test_two_codes_lie_in_a_byte_the_even_one_low() -> None:
    name = "model.layers.1.mlp.experts.down_proj_blocks"
    blocks = EXAMINED.stored[name]
    swapped = (blocks << 4) | (blocks >> 4)
    assert EXAMINED.problems_if(values_of({**EXAMINED.stored, name: swapped}))
