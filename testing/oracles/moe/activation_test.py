"""The gated activations by hand, at their clamps, and float32 evaluations beside their bounds."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.moe.activation import ACTIVATIONS, silu_and_mul, spread, swiglu_oai


def one(value: float) -> Float64:
    return np.array([value])


def test_silu_by_hand() -> None:
    # sigmoid(ln 3) = 3/4.
    assert silu_and_mul(one(np.log(3)), one(4.0)).value == pytest.approx(3 * np.log(3))
    assert silu_and_mul(one(0.0), one(9.0)).value == 0
    assert silu_and_mul(one(-1000.0), one(9.0)).value == 0
    assert silu_and_mul(one(1000.0), one(-2.0)).value == -2000


def test_swiglu_oai_by_hand() -> None:
    gate = np.log(3) / 1.702
    assert swiglu_oai(one(gate), one(1.0)).value == pytest.approx(2 * gate * 0.75)
    assert swiglu_oai(one(2.0), one(-1.0)).value == 0


def test_swiglu_oai_clamps_the_gate_above_only_and_up_on_both_sides() -> None:
    top = 7 / (1 + np.exp(-7 * 1.702))
    assert swiglu_oai(one(50.0), one(50.0)).value == pytest.approx(8 * top)
    assert swiglu_oai(one(50.0), one(-50.0)).value == pytest.approx(-6 * top)
    low = -9 / (1 + np.exp(9 * 1.702))
    assert swiglu_oai(one(-9.0), one(0.0)).value == pytest.approx(low)


def float32_value(name: str, gate: Float64, up: Float64) -> Float64:
    f = np.float32
    g, u = gate.astype(f), up.astype(f)
    if name == "silu":
        return (g / (f(1) + np.exp(-g)) * u).astype(float)
    g, u = np.minimum(g, f(7)), np.clip(u, f(-7), f(7))
    return ((u + f(1)) * (g / (f(1) + np.exp(-(g * f(1.702)))))).astype(float)


def samples(rng: np.random.Generator) -> tuple[Float64, Float64]:
    gate, up = rng.standard_normal((2, 200_000)).astype(np.float32).astype(float) * 4
    up[:50_000] = (-1 + rng.standard_normal(50_000) * 1e-3).astype(np.float32)
    return gate, up


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_float32_evaluations_stay_within_the_bound(name: str) -> None:
    gate, up = samples(np.random.default_rng(1))
    activated = ACTIVATIONS[name](gate, up)
    error = np.abs(float32_value(name, gate, up) - activated.value)
    assert (error <= activated.bound).all()
    assert (error > activated.bound / 20).any()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_moved_arguments_stay_within_the_spread(name: str) -> None:
    rng = np.random.default_rng(2)
    gate, up = samples(rng)
    size = np.exp2(rng.uniform(-20, 1, gate.shape))
    moved = (
        gate + size * rng.uniform(-1, 1, gate.shape),
        up + size * rng.choice([-1, 1], up.shape),
    )
    wide = spread(name, gate, up, size, size)
    error = np.abs(ACTIVATIONS[name](*moved).value - wide.value)
    assert (error <= wide.bound).all()
    assert (error > wide.bound / 2).any()


def test_the_slope_of_a_swish_is_below_1_1() -> None:
    x = np.linspace(-20, 20, 4_000_001)
    for alpha in (1.0, 1.702):
        swish = x / (1 + np.exp(-alpha * x))
        assert np.abs(np.diff(swish) / np.diff(x)).max() < 1.1
