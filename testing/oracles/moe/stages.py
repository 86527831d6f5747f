"""Each stage of an MoE layer beside its own inputs: two products, an activation, a weighted sum.

A layer that hands over what passes between its stages can be judged stage by stage, each with the
error model of its own arithmetic alone, since what went in is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.error_model.accumulators import FP32 as FP32_SUMS
from testing.oracles.error_model.accumulators import Accumulator
from testing.oracles.error_model.noise import Noise, float64_noise, gamma, subnormal_noise
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.sums import accumulation_noise
from testing.oracles.formats import LinearFormat
from testing.oracles.moe.activation import ACTIVATIONS
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.routing import Choice, Int64
from testing.oracles.places import Layout, single_shard
from testing.oracles.rounding import FP32, FloatType
from testing.oracles.statistics import Comparison
from testing.oracles.unquantised_formats import Unquantised

_TINY = float(np.finfo(float).tiny)


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
    noise = noise + subnormal_noise(product.parts, noise)
    if inexact and isinstance(fmt, Unquantised):
        return noise + accumulation_noise(product, accumulator)
    return noise


def compare_product(
    fmt: LinearFormat,
    product: Product,
    got: Float64,
    layout: Layout,
    slack: Float64 | None = None,
    kind: FloatType = FP32,
    accumulator: Accumulator = FP32_SUMS,
    inexact: bool = False,
) -> Comparison:
    """One expert's rows `got` (P, N), stored in `kind`, beside the exact product.

    slack: (P, K) how far x̂ may be off, as by a step where x lies on a tie; None: nowhere.
    """
    noise = product_noise(fmt, product, accumulator, inexact)
    comparison = Comparison(got, product.parts, product.exact, noise, kind, layout)
    if slack is None or not slack.any():
        return comparison
    spread = slack @ np.abs(product.weight).T
    regressors = [product.exact, *product.parts]
    shared = coherent(comparison.typical_ulp(), regressors, slack, product.weight)
    return replace(comparison, noise=noise + Noise(spread, spread, shared))


def coherent(
    tau: Float64, regressors: Iterable[Float64], slack: Float64, weight: Float64
) -> Float64:
    """(P, N) what errors of x̂ (P, K) of at most `slack` add to statistics of whole rows.

    One value of x̂ that is off moves a whole row of x̂·wᵀ along a column of w (N, K), which is no
    independent error of the row's elements. To a statistic Σ_n P·d/τ² of a row it adds at most
    Σ_k |Δx̂_k|·|Σ_n P_n·w_nk/τ_n²|; written as a gain of P, that counts as shared by the row.
    """
    shared = np.zeros(tau.shape)
    for regressor in regressors:
        scaled = regressor / tau**2
        moved = (slack * np.abs(scaled @ weight)).sum(axis=1)
        power = np.maximum((regressor * scaled).sum(axis=1), _TINY)
        shared += (moved / power)[:, None] * np.abs(regressor)
    return shared


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
