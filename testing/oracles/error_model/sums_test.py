"""Sums in float32, in several orders, stay within the model, and it is not wildly wide."""

from collections.abc import Callable

import numpy as np
import pytest

from testing.oracles.arrays import Float32, Float64
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.sums import (
    accumulation_noise,
    scaled_block_sums_noise,
    scaled_sum_noise,
)

Order = Callable[[Float32], Float32]


def forwards(terms: Float32) -> Float32:
    return np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]


def backwards(terms: Float32) -> Float32:
    return forwards(terms[..., ::-1])


def pairwise(terms: Float32) -> Float32:
    while terms.shape[-1] > 1:
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def eight_lanes(terms: Float32) -> Float32:
    return pairwise(np.cumsum(terms.reshape(*terms.shape[:-1], -1, 8), axis=-2)[..., -1, :])


ORDERS: list[Order] = [forwards, backwards, pairwise, eight_lanes]


def by_name(order: Order) -> str:
    return order.__name__


def operands(k: int, seed: int = 2) -> tuple[Float64, Float64]:
    """Values of four bits, as codes are: their products are exact in float32."""
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(-15, 16, (n, k)) * np.exp2(rng.integers(-6, 5, (n, k))) for n in (48, 40))
    return x, w


def terms_of(x: Float64, w: Float64) -> Float32:
    return (x[:, None] * w[None]).astype(np.float32)


@pytest.mark.parametrize("order", ORDERS, ids=by_name)
@pytest.mark.parametrize("k", [32, 256, 2048])
def test_sums_in_any_order_stay_within(order: Order, k: int) -> None:
    x, w = operands(k)
    noise = accumulation_noise(Product(x, w))
    error = order(terms_of(x, w)).astype(float) - x @ w.T
    assert (np.abs(error) <= noise.bound).all()
    assert np.abs(error).max() > 0


@pytest.mark.parametrize("k", [256, 2048])
def test_a_running_sum_has_the_predicted_deviation_within_a_factor_of_two(k: int) -> None:
    # Twelve bits each: products fill float32, so that no addition is exact by luck.
    rng = np.random.default_rng(4)
    x, w = (np.rint(rng.standard_normal((n, k)) * 1024) for n in (48, 40))
    noise = accumulation_noise(Product(x, w))
    error = forwards(terms_of(x, w)).astype(float) - x @ w.T
    ratio = np.sqrt(np.mean((error / noise.std) ** 2))
    assert 0.5 < ratio < 1


def test_a_single_product_is_exact() -> None:
    _, w = operands(64)
    assert not accumulation_noise(Product(np.eye(64), w)).bound.any()


@pytest.mark.parametrize("order", ORDERS, ids=by_name)
def test_scaled_sums_stay_within(order: Order) -> None:
    rng = np.random.default_rng(5)
    f = np.float32
    x, w = operands(512)
    amax = (448 * np.exp2(rng.uniform(-12, -6, (48, 1)))).astype(f)
    weight_scale = np.exp2(rng.uniform(-8, -6, 40)).astype(f)
    bias = rng.standard_normal(40).astype(f)
    exact = Product(
        x * (amax.astype(float) / 448), w * weight_scale.astype(float)[:, None], bias.astype(float)
    )
    total = order(terms_of(x, w))
    applied_apart = total * (amax * f(1 / 448)) * weight_scale + bias
    applied_at_once = total * ((amax / f(448)) * weight_scale) + bias
    formed_first = order(
        (x.astype(f) * (amax / f(448)))[:, None] * (w.astype(f) * weight_scale[:, None])[None]
    )
    bound = scaled_sum_noise(exact).bound
    for got in (applied_apart, applied_at_once, formed_first + bias):
        assert (np.abs(got.astype(float) - exact.exact) <= bound).all()


@pytest.mark.parametrize("model", [scaled_sum_noise, scaled_block_sums_noise])
def test_a_scaled_single_product_stays_within_though_nothing_is_added_up(
    model: Callable[[Product], Noise],
) -> None:
    rng = np.random.default_rng(7)
    f = np.float32
    x = np.diag(rng.integers(1, 16, 48).astype(float))
    w = rng.integers(-15, 16, (400, 48)) * np.exp2(rng.integers(-6, 5, (400, 48)))
    amax = (448 * np.exp2(rng.uniform(-12, -6, (48, 1)))).astype(f)
    weight_scale = np.exp2(rng.uniform(-8, -6, len(w))).astype(f)
    bias = (2.0**-15 * rng.standard_normal(len(w))).astype(f)
    exact = Product(
        x * (amax.astype(float) / 448), w * weight_scale.astype(float)[:, None], bias.astype(float)
    )
    scale = amax * f(1 / 448)
    applied_apart = (x @ w.T).astype(f) * scale * weight_scale
    formed_first = (x.astype(f) * scale) @ (w.astype(f) * weight_scale[:, None]).T
    bound = model(exact).bound
    for got in (applied_apart + bias, formed_first + bias):
        error = np.abs(got.astype(float) - exact.exact)
        assert (error <= bound).all()
        assert (error > bound / 2.5).any(), "the bound is much wider than what happens"


def test_scaled_block_sums_stay_within() -> None:
    rng = np.random.default_rng(6)
    f = np.float32
    x, w = operands(512)
    x_scale = np.exp2(rng.uniform(-12, -6, (48, 4))).astype(f)
    w_scale = np.exp2(rng.uniform(-12, -6, (40, 4))).astype(f)
    exact = Product(
        x * np.repeat(x_scale.astype(float), 128, axis=1),
        w * np.repeat(w_scale.astype(float), 128, axis=1),
    )
    total: Float32 = np.zeros((48, 40), f)
    for block in range(4):
        part = slice(128 * block, 128 * (block + 1))
        sums = forwards(terms_of(x[:, part], w[:, part]))
        total += sums * x_scale[:, block, None] * w_scale[None, :, block]
    noise = scaled_block_sums_noise(exact)
    error = np.abs(total.astype(float) - exact.exact)
    assert (error <= noise.bound).all()
    assert (noise.bound < 2.0**-13 * exact.euclidean).all(), "a sixteenth of an ulp of bf16"
