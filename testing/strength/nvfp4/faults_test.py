"""Every fault planted in an NVFP4 layer is caught by the layer tests' checks, and named."""

import pytest

import layers.quantization.modelopt_fp4  # noqa: F401 registers itself
from testing.strength.chosen import chosen
from testing.strength.fault import Planted, plantings, right_benches
from testing.strength.nvfp4.faults import BENCHES, FAULTS

FORMATS = chosen(BENCHES)


@pytest.mark.parametrize("planted", plantings(FAULTS, BENCHES, FORMATS), ids=str)
def test_fault_is_caught_and_named(planted: Planted) -> None:
    planted.require_caught()


@pytest.mark.parametrize(("fmt", "bench"), right_benches(BENCHES, FORMATS))
def test_the_layer_is_right_before_a_fault_is_planted(fmt: str, bench: str) -> None:
    right = BENCHES[fmt][bench]
    right.examine(right.build()).require()
