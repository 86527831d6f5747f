"""A simulated tensor core stays within the model, and the model is not wildly wide."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e4m3
from testing.oracles.error_model.accumulators import (
    HOPPER_BF16,
    HOPPER_FP8,
    HOPPER_FP8_PROMOTED,
    Accumulator,
)
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.simulated import tensor_core
from testing.oracles.error_model.tensor_cores import truncation_noise
from testing.oracles.linear_formats.fp8 import Fp8Channel
from testing.oracles.rounding import BF16, round_to

ALL = [HOPPER_FP8, HOPPER_FP8_PROMOTED, HOPPER_BF16]


def operands(k: int) -> tuple[Float64, Float64]:
    """Codes, as the instruction is given them: scales come after the sum."""
    fmt, rng = Fp8Channel(), np.random.default_rng(8)
    tensors = fmt.random_weight(rng, 40, k, 1.0)
    return fmt.activations({}).lossless(rng, 40, k), tensors["weight"].astype(np.float64)


def normal_operands(k: int, accumulator: Accumulator) -> tuple[Float64, Float64]:
    """Normal data, rounded to what the instruction multiplies."""
    x, w = np.random.default_rng(9).standard_normal((2, 40, k)) * 100
    if accumulator is HOPPER_BF16:
        return round_to(x, BF16), round_to(w, BF16)
    return e4m3.decode(e4m3.encode(x)), e4m3.decode(e4m3.encode(w))


def gain_of(error: Float64, exact: Float64) -> float:
    """The multiple of `exact` that `error` holds."""
    return float(np.sum(error * exact) / np.sum(exact**2))


@pytest.mark.parametrize("accumulator", ALL, ids=lambda a: a.name)
@pytest.mark.parametrize(
    ("k", "normal"), [(128, True), (256, False), (1024, False), (2048, False), (2048, True)]
)
def test_simulated_sums_stay_within(accumulator: Accumulator, k: int, normal: bool) -> None:
    x, w = normal_operands(k, accumulator) if normal else operands(k)
    product = Product(x, w)
    noise = truncation_noise(product, accumulator)
    error = tensor_core(x, w, accumulator) - product.exact
    assert (np.abs(error) <= noise.bound).all()
    deviation = np.sqrt(np.mean((error / noise.std) ** 2))
    assert 0.3 < deviation < 1
    modelled = gain_of(noise.systematic, np.abs(product.exact))
    assert 0.15 * modelled < -gain_of(error, product.exact) < modelled


# Gains in percent and deviations in units of E that an H200 gave, M 256, N 512, for such codes.
H200 = {
    HOPPER_FP8: {1024: (0.0081, 6.45e-4), 4096: (0.0152, 1.33e-3)},
    HOPPER_FP8_PROMOTED: {1024: (0.0038, 2.07e-4), 4096: (0.0038, 2.07e-4)},
    HOPPER_BF16: {1024: (0.00009, 1.08e-6), 2048: (0.00019, 2.2e-6)},
}


@pytest.mark.parametrize("accumulator", ALL, ids=lambda a: a.name)
def test_what_an_h200_gave_is_within_and_not_far(accumulator: Accumulator) -> None:
    for k, (percent, deviation) in H200[accumulator].items():
        product = Product(*operands(k))
        noise = truncation_noise(product, accumulator)
        assert 1 < np.mean(noise.std / product.euclidean) / deviation < 2.5
        modelled = 100 * gain_of(noise.systematic, np.abs(product.exact))
        assert 1 < modelled / percent < 2.5


@pytest.mark.parametrize("accumulator", ALL, ids=lambda a: a.name)
def test_one_product_loses_nothing(accumulator: Accumulator) -> None:
    _, w = operands(64)
    assert not truncation_noise(Product(np.eye(64), w), accumulator).bound.any()


def test_promotion_helps() -> None:
    product = Product(*operands(2048))
    never, often = (truncation_noise(product, a) for a in (HOPPER_FP8, HOPPER_FP8_PROMOTED))
    assert np.allclose(often.std, never.std / 4)
    assert np.allclose(often.systematic, never.systematic / 4)
