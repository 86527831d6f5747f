"""Float32 stages, written here, stay within their comparisons; a hair more than that does not."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float32, Float64
from testing.oracles.error_model.product import Product
from testing.oracles.int8_formats import Int8Channel
from testing.oracles.moe.probes import router_logits
from testing.oracles.moe.routing import Routing, choose
from testing.oracles.moe.stages import Pairs, compare_combined, compare_product
from testing.oracles.places import Layout, single_shard
from testing.oracles.rounding import FP32
from testing.oracles.statistics import Comparison, evidence

TOKENS, EXPERTS, WIDTH = 24, 8, 96


def alarms(comparison: Comparison) -> list[str]:
    found = [name for name, family in evidence(comparison).items() if family.rejected.any()]
    return found + ["element"] * bool(comparison.outside().any())


def combined(seed: int, gain: float = 1.0, error: float = 0.0) -> Comparison:
    """A float32 sum of weighted rows, in a random order for each token.

    error: relative, of the weights, which are off by as much.
    """
    rng = np.random.default_rng(seed)
    pairs = Pairs.of(choose(router_logits(rng, TOKENS, EXPERTS), Routing(4)))
    weights = pairs.weights.astype(np.float32).astype(float)
    pairs = replace(pairs, weights=weights, error=error * weights)
    down = rng.standard_normal((len(weights), WIDTH)).astype(np.float32)
    used = (weights * (1 + error)).astype(np.float32)
    parts = (down * used[:, None]).reshape(TOKENS, 4, WIDTH)
    total: Float32 = np.zeros((TOKENS, WIDTH), np.float32)
    for k in rng.permutation(4):
        total += parts[:, k]
    got = (total * np.float32(gain)).astype(float)
    return compare_combined(pairs, down.astype(float), got, FP32, EXPERTS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("error", [0.0, 1e-5])
def test_a_sum_in_any_order_is_right(seed: int, error: float) -> None:
    assert alarms(combined(seed, error=error)) == []


def test_a_sum_that_is_a_millionth_off_is_not() -> None:
    assert alarms(combined(0, 1 + 1e-6))


def product_with_one_value_off(step: float) -> tuple[Product, Float64, Float64]:
    """A product, what a layer gives whose x̂ differs in one value, and how far it may differ."""
    fmt, rng = Int8Channel(), np.random.default_rng(3)
    weight = fmt.decode(fmt.random_weight(rng, 256, 128, 1.0))
    x = fmt.activations({}).lossless(rng, 16, 128)
    # Few values make up the row: what one of them moves is much like the row itself.
    x[5, np.arange(128) % 64 != 13] = 0
    slack = np.zeros_like(x)
    slack[5, 77] = np.abs(x[5]).max() / 127
    moved = x + step * slack
    got = (moved @ weight.T).astype(np.float32).astype(float)
    return Product(x, weight), got, slack


@pytest.mark.parametrize("step", [-1.0, 0.0, 1.0])
def test_a_value_on_a_tie_may_move_its_whole_row(step: float) -> None:
    product, got, slack = product_with_one_value_off(step)
    layout = Layout(single_shard(256), 128)
    assert alarms(compare_product(Int8Channel(), product, got, layout, slack)) == []
    assert bool(alarms(compare_product(Int8Channel(), product, got, layout))) == (step != 0)


def test_it_may_not_move_by_two_steps() -> None:
    product, got, slack = product_with_one_value_off(2.0)
    layout = Layout(single_shard(256), 128)
    assert alarms(compare_product(Int8Channel(), product, got, layout, slack))
