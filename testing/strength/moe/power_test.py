"""How small a bias of a MoE layer the layer tests' checks find, and which wrong bits."""

import pytest

import testing.strength.moe.registered  # noqa: F401 registers the methods
from testing.strength.chosen import chosen
from testing.strength.moe.formats import METHODS
from testing.strength.moe.power import FAMILIES, require_power
from testing.strength.moe.single_bits import require_single_bits


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_bias_as_small_as_the_goal_is_found(fmt: str, family: str) -> None:
    require_power(fmt, METHODS[fmt], family)


@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_every_wrong_bit_that_a_right_layer_shows_is_found(fmt: str) -> None:
    require_single_bits(fmt, METHODS[fmt])
