"""Every fault planted in a gated delta layer is caught by the layer tests' checks, and named."""

import pytest

from testing.strength.attention.gdn.bench import BENCHES
from testing.strength.attention.gdn.faults import FAULTS
from testing.strength.fault import Planted, plantings, right_benches


@pytest.mark.parametrize("planted", plantings(FAULTS, BENCHES), ids=str)
def test_fault_is_caught_and_named(planted: Planted) -> None:
    planted.require_caught()


@pytest.mark.parametrize(("fmt", "bench"), right_benches(BENCHES, list(BENCHES)))
def test_the_layer_is_right_before_a_fault_is_planted(fmt: str, bench: str) -> None:
    right = BENCHES[fmt][bench]
    right.examine(right.build()).require()
