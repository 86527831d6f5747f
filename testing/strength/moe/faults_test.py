"""Every fault planted in a MoE layer is caught by the layer tests' checks, and named."""

import pytest

import testing.strength.moe.registered  # noqa: F401 registers the methods
from testing.strength.chosen import chosen
from testing.strength.fault import Planted, plantings, right_benches
from testing.strength.moe import faults, fp4_faults
from testing.strength.moe.formats import BENCHES

FORMATS = chosen(BENCHES)
FAULTS = [*faults.FAULTS, *fp4_faults.FAULTS]


@pytest.mark.parametrize("planted", plantings(FAULTS, BENCHES, FORMATS), ids=str)
def test_fault_is_caught_and_named(planted: Planted) -> None:
    planted.require_caught()


@pytest.mark.parametrize(("fmt", "bench"), right_benches(BENCHES, FORMATS))
def test_the_layer_is_right_before_a_fault_is_planted(fmt: str, bench: str) -> None:
    right = BENCHES[fmt][bench]
    right.examine(right.build()).require()
