"""Each stage of an MoE layer beside its own inputs: two products, an activation, a weighted sum.

A layer that hands over what passes between its stages can be judged stage by stage, each with the
error model of its own arithmetic alone, since what went in is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.error_model.accumulators import FP32 as FP32_SUMS
from testing.oracles.error_model.accumulators import Accumulator
from testing.oracles.error_model.noise import Noise, float64_noise, gamma, subnormal_noise
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.sums import accumulation_noise
from testing.oracles.formats import Activations, LinearFormat
from testing.oracles.matmul import matmul
from testing.oracles.moe.activation import ACTIVATIONS
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.routing import Choice, Int64
from testing.oracles.places import Layout, single_shard
from testing.oracles.rounding import FP32, FloatType
from testing.oracles.statistics import Comparison
from testing.oracles.unquantised_formats import Unquantised


@dataclass(frozen=True)
class Pairs:
    """A token and one of its experts: row t·K + k is token t's k-th choice.

    tokens, experts: (T·K,). weights, error: (T·K,) as in `Choice`.
    """

    tokens: Int64
    experts: Int64
    weights: Float64
    error: Float64

    @classmethod
    def of(cls, choice: Choice) -> Pairs:
        """Of every choice of every token."""
        tokens, choices = choice.ids.shape
        return cls(
            np.repeat(np.arange(tokens), choices),
            choice.ids.ravel(),
            choice.weights.ravel(),
            choice.error.ravel(),
        )

    def rows_of(self, expert: int) -> Int64:
        """The pairs of one expert."""
        return np.flatnonzero(self.experts == expert)


def product_noise(
    fmt: LinearFormat,
    product: Product,
    accumulator: Accumulator = FP32_SUMS,
    inexact: bool = False,
) -> Noise:
    """What a right kernel may be off by, and the reference.

    inexact: x is not such that float32 sums of an unquantised product are exact.
    """
    noise = fmt.noise(product, accumulator) + float64_noise(product.x, product.weight)
    noise = noise + subnormal_noise(product.parts)
    if inexact and isinstance(fmt, Unquantised):
        return noise + accumulation_noise(product, accumulator)
    return noise


def compare_product(
    fmt: LinearFormat,
    product: Product,
    got: Float64,
    layout: Layout,
    allowance: Noise | None = None,
    kind: FloatType = FP32,
    accumulator: Accumulator = FP32_SUMS,
    inexact: bool = False,
) -> Comparison:
    """One expert's rows `got` (P, N), stored in `kind`, beside the exact product."""
    noise = product_noise(fmt, product, accumulator, inexact)
    noise = noise if allowance is None else noise + allowance
    return Comparison(got, product.parts, product.exact, noise, kind, layout)


def tie_allowance(want: Activations, weight: Float64) -> Noise:
    """What the product may be off by where x lies on a tie, and x̂ may be a step off."""
    spread = matmul(want.near_tie * want.step, np.abs(weight))
    return Noise(spread, spread / 2, np.zeros_like(spread))


def compare_hidden(
    checkpoint: MoeCheckpoint, gate_up: Float64, got: Float64, kind: FloatType
) -> Comparison:
    """h (P, I) of `kind` beside the activation of the very gate_up (P, 2I) that went in."""
    size = checkpoint.intermediate_size
    activated = ACTIVATIONS[checkpoint.activation](gate_up[:, :size], gate_up[:, size:])
    zero = np.zeros_like(activated.value)
    noise = Noise(activated.bound, activated.bound, zero)
    layout = Layout(single_shard(size), size, (128, size))
    return Comparison(got, activated.value[None], activated.value, noise, kind, layout)


def compare_combined(
    pairs: Pairs, down: Float64, got: Float64, kind: FloatType, experts: int
) -> Comparison:
    """The output (T, H) beside the weighted sum of the very rows `down` (P, H) that went in.

    K products and sums in float32, in any order: K roundings on Σ|w·down|. A weight's error is
    shared by its whole row.
    """
    tokens, width = got.shape
    parts = np.zeros((experts, tokens, width))
    parts[pairs.experts, pairs.tokens] = pairs.weights[:, None] * down
    choices = len(pairs.tokens) // max(tokens, 1)
    size = gamma(choices) * np.abs(parts).sum(axis=0)
    shared = np.zeros((tokens, width))
    np.add.at(shared, pairs.tokens, pairs.error[:, None] * np.abs(down))
    flushed = (choices + 1) * 2.0**-126
    noise = Noise(size + shared + flushed, size / np.sqrt(3) + shared, shared)
    return Comparison(got, parts, parts.sum(axis=0), noise, kind, ExpertLayout.of(experts, width))


@dataclass(frozen=True)
class ExpertLayout(Layout):
    """An output as the sum of what each expert adds to it, in the place of K blocks."""

    @classmethod
    def of(cls, experts: int, width: int) -> ExpertLayout:
        """width: H."""
        return cls(single_shard(width), experts, (128, 1))

    def block_label(self, block: int) -> str:
        """`expert 3`."""
        return f"expert {block}"
