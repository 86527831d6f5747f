"""What roundings of fp32 and of the output may do, by hand and by trial."""

import math

import numpy as np
import pytest

from testing.oracles.error_model.integers import scaled_integer_noise
from testing.oracles.error_model.noise import (
    Noise,
    float64_noise,
    gamma,
    rounding_noise,
    subnormal_noise,
)
from testing.oracles.rounding import BF16, round_to


def test_gamma_by_hand() -> None:
    assert gamma(1) == pytest.approx(2.0**-24, rel=1e-6)
    assert gamma(10) == pytest.approx(10 * 2.0**-24, rel=1e-5)


def test_a_rounding_on_the_way_is_half_an_ulp() -> None:
    value = np.array([1.0, 3.0, 1 + 2**-8])
    noise = rounding_noise(value, BF16)
    assert noise.bound.tolist() == [2**-8, 2**-7, 2**-8]
    assert (np.abs(round_to(value, BF16) - value) <= noise.bound).all()


def test_noises_add() -> None:
    product = np.array([[1.0, -2.0]])
    both = scaled_integer_noise(product, None) + rounding_noise(product, BF16)
    assert both.bound[0, 0] == pytest.approx(2**-8 + 6 * 2.0**-24)
    assert both.systematic[0, 1] == pytest.approx(6 * 2.0**-24)


def test_the_reference_is_off_by_no_more_than_it_says() -> None:
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((4, 3000)), rng.standard_normal((6, 3000))
    exact = np.array([[math.fsum(a * b) for b in w] for a in x])
    assert (np.abs(x @ w.T - exact) <= float64_noise(x, w).bound).all()
    assert (float64_noise(x, w).bound < 1e-8).all()


def test_products_below_the_normal_range_of_float32_stay_within() -> None:
    rng = np.random.default_rng(6)
    f = np.float32
    codes = rng.integers(1, 1000, 10_000).astype(f)
    scales = np.exp2(rng.uniform(-140, -126, (2, 10_000))).astype(f)
    scales[1] = np.exp2(rng.uniform(-12, 0, 10_000))
    got = (codes * scales[0] * scales[1]).astype(float)
    exact = codes.astype(float) * scales[0].astype(float) * scales[1].astype(float)
    noise = scaled_integer_noise(exact, None) + subnormal_noise(exact[None])
    assert (np.abs(got - exact) <= noise.bound).all()
    assert (np.abs(got - exact) > scaled_integer_noise(exact, None).bound).any()


def test_only_a_product_below_the_normal_range_may_be_flushed() -> None:
    parts = np.array([[[0.5, 1.5, 0.4]], [[0.25, -0.25, 0.8]]]) * 2.0**-126
    flushed = np.abs(parts.sum(axis=0)) <= subnormal_noise(parts).bound
    assert flushed.tolist() == [[True, False, False]]


def test_a_sum_that_may_end_below_the_normal_range_may_be_flushed() -> None:
    # As seen on an H200: 1.17863e-38 and 1.18179e-38, above 2^-126 = 1.17549e-38.
    parts = np.array([[[1.17863e-38, 1.18179e-38, 1.3e-38]]])
    bound = np.full((1, 3), 1e-40)
    before = Noise(bound, bound, bound)
    allowed = (before + subnormal_noise(parts, before)).bound
    assert (parts[0] <= allowed).tolist() == [[True, True, False]]


def test_no_flush_takes_more_than_the_smallest_normal_number() -> None:
    parts, bound = np.array([[[1.0]]]), np.array([[2.0]])
    assert subnormal_noise(parts, Noise(bound, bound, bound)).bound[0, 0] < 2.0**-125
