"""How small a bias of an MX layer the layer tests' checks find, and which wrong bits."""

import pytest

import layers.quantization.mxfp4
import layers.quantization.mxfp8  # noqa: F401 both register themselves
from testing.strength.bias import FAMILIES
from testing.strength.chosen import chosen
from testing.strength.figures import require_every_byte, require_power
from testing.strength.mx.faults import METHODS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_bias_as_small_as_the_goal_is_found(fmt: str, family: str) -> None:
    require_power(METHODS[fmt], family, four_bits="fp4" in fmt, backend="torch")


@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_every_wrong_bit_that_a_right_kernel_shows_is_found(fmt: str) -> None:
    require_every_byte(METHODS[fmt])
