"""The error model covers fp32 arithmetic in every order tried, and is not wildly wide."""

import numpy as np
import pytest

from testing.oracles.error_model.integers import scaled_block_noise, scaled_integer_noise


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("weight_scale_first", [False, True])
def test_scaled_integer_sum_in_fp32_stays_within(
    reciprocal: bool, weight_scale_first: bool
) -> None:
    rng = np.random.default_rng(3)
    f = np.float32
    total = rng.integers(-(2**28), 2**28, 200_000)
    amax = np.exp2(rng.uniform(-6, 6, total.shape)).astype(f)
    weight_scale = np.exp2(rng.uniform(-6, 6, total.shape)).astype(f)
    bias = rng.standard_normal(total.shape).astype(f)
    scale = amax * f(1 / 127) if reciprocal else amax / f(127)
    value = total.astype(f)
    first, second = (weight_scale, scale) if weight_scale_first else (scale, weight_scale)
    got = (value * first * second + bias).astype(float)
    product = total * (amax.astype(float) / 127) * weight_scale.astype(float)
    error = np.abs(got - product - bias)
    bound = scaled_integer_noise(product, bias.astype(float)).bound
    assert (error <= bound).all()
    assert (error > bound / 6).any(), "the bound is much wider than what happens"


@pytest.mark.parametrize("backwards", [False, True])
def test_block_sums_in_fp32_stay_within(backwards: bool) -> None:
    rng = np.random.default_rng(4)
    f = np.float32
    parts = rng.integers(-(2**21), 2**21, (16, 100_000))
    scales = np.exp2(rng.uniform(-2, 2, (2, *parts.shape))).astype(f)
    terms = parts.astype(f) * scales[0] * scales[1]
    got = np.zeros(parts.shape[1], f)
    for term in terms[::-1] if backwards else terms:
        got = got + term
    exact = parts * scales[0].astype(float) * scales[1].astype(float)
    assert (np.abs(got - exact.sum(axis=0)) <= scaled_block_noise(exact, None).bound).all()
