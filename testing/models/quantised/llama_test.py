"""Llama quantised in each format gives what its codes stand for, within what roundings explain."""

from functools import cache

import pytest

from testing.models.quantised.configs import BLOCKED_LLAMA
from testing.models.quantised.examine import Quantised
from testing.models.quantised.formats import FORMATS

# What adds to the stream of hidden states comes by itself: its sum's size is normed away.
KINDS = [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("o_proj",), ("down_proj",)]


@cache
def quantised(name: str) -> Quantised:
    return Quantised(BLOCKED_LLAMA, name)


@pytest.mark.parametrize("name", FORMATS)
def test_logits_are_those_of_the_codes(name: str) -> None:
    assert quantised(name).problems() == []


@pytest.mark.parametrize("name", FORMATS)
def test_tensors_out_of_place_would_show(name: str) -> None:
    examined = quantised(name)
    for suffix in examined.suffixes:
        for kinds in KINDS:
            assert examined.problems_if_moved(suffix, kinds), (suffix, kinds)
