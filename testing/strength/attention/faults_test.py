"""Every fault planted in an attention layer is caught by the layer tests' checks, and named."""

import pytest

from testing.strength.attention.fault import require_caught
from testing.strength.attention.faults import BENCHES, FAULTS
from testing.strength.chosen import chosen
from testing.strength.fault import Planted, plantings, right_benches

FORMATS = chosen(BENCHES)


@pytest.mark.parametrize("planted", plantings(FAULTS, BENCHES, FORMATS), ids=str)
def test_fault_is_caught_and_named(planted: Planted) -> None:
    require_caught(planted)


@pytest.mark.parametrize(("fmt", "bench"), right_benches(BENCHES, FORMATS))
def test_the_layer_is_right_before_a_fault_is_planted(fmt: str, bench: str) -> None:
    right = BENCHES[fmt][bench]
    right.examine(right.build()).require()
