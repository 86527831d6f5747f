"""DeepSeek-V3 quantised in each format of its layers gives what its codes stand for."""

from functools import cache

import pytest

from testing.models.quantised.configs import BLOCKED_DEEPSEEK
from testing.models.quantised.examine import Quantised

NAMES = ["int8_channel", "int8_block", "fp8_static", "fp8_block", "nvfp4"]
# What adds to the stream of hidden states comes by itself: its sum's size is normed away.
KINDS = [
    ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
    ("gate_proj", "up_proj"),
    ("o_proj",),
    ("down_proj",),
]


@cache
def quantised(name: str) -> Quantised:
    return Quantised(BLOCKED_DEEPSEEK, name)


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_codes(name: str) -> None:
    assert quantised(name).problems() == []


@pytest.mark.parametrize("name", NAMES)
def test_tensors_out_of_place_would_show(name: str) -> None:
    examined = quantised(name)
    for suffix in examined.suffixes:
        for kinds in KINDS:
            assert examined.problems_if_moved(suffix, kinds), (suffix, kinds)
