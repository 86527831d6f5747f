"""Every fault planted in an int8 layer is caught by the layer tests' checks, and named."""

from contextlib import ExitStack

import pytest

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from testing.harness.linear import LinearCase
from testing.harness.linear_probes import ActivationCodes
from testing.strength.chosen import chosen
from testing.strength.fault import Planted, plantings, right_benches
from testing.strength.int8.codes import truncate
from testing.strength.int8.faults import BENCHES, FAULTS, METHODS
from testing.strength.linear_bench import LinearBench, in_quantiser

FORMATS = chosen(BENCHES)


@pytest.mark.parametrize("planted", plantings(FAULTS, BENCHES, FORMATS), ids=str)
def test_fault_is_caught_and_named(planted: Planted) -> None:
    planted.require_caught()


@pytest.mark.parametrize(("fmt", "bench"), right_benches(BENCHES, FORMATS))
def test_the_layer_is_right_before_a_fault_is_planted(fmt: str, bench: str) -> None:
    right = BENCHES[fmt][bench]
    right.examine(right.build()).require()


@pytest.mark.parametrize("fmt", FORMATS)
def test_truncation_shows_in_the_codes_and_as_fourfold_noise(fmt: str) -> None:
    case = LinearCase(METHODS[fmt], "column", 64, {"": 512}, 512)
    bench = LinearBench(case, identity=True)
    with ExitStack() as stack:
        loaded = in_quantiser(truncate)(bench, stack)
    verdict = bench.examine(loaded, (ActivationCodes(),))
    assert "activation codes differ from the declared rule" in str(verdict)
    assert verdict.statistics["activation_noise_ratio"] == pytest.approx(4, rel=0.05)
