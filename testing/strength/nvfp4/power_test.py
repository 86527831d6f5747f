"""How small a bias of an NVFP4 layer the layer tests' checks find, and which wrong bits."""

import pytest

import layers.quantization.modelopt_fp4  # noqa: F401 registers itself
from testing.strength.bias import FAMILIES
from testing.strength.chosen import chosen
from testing.strength.figures import require_every_byte, require_power
from testing.strength.nvfp4.faults import METHODS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_bias_as_small_as_the_goal_is_found(fmt: str, family: str) -> None:
    require_power(METHODS[fmt], family, four_bits=True, backend="torch")


@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_every_wrong_bit_that_a_right_kernel_shows_is_found(fmt: str) -> None:
    require_every_byte(METHODS[fmt])
