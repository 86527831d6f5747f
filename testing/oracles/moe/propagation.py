"""A whole MoE layer in float64, and how far a right kernel's output may lie from it.

The reference goes the kernel's way: it quantises and rounds where the kernel does. What float32
leaves uncertain before a rounding is carried along: far from a boundary the rounded value is known
for certain, near it both neighbours are right. With float32 in between hardly a value of h in a
hundred is uncertain, so that the output is known almost as sharply as one product's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.error_model.accumulators import FP32 as FP32_SUMS
from testing.oracles.error_model.accumulators import Accumulator
from testing.oracles.error_model.noise import Noise, gamma, no_noise
from testing.oracles.error_model.product import Product
from testing.oracles.formats import ActivationRule, Activations
from testing.oracles.moe.activation import spread
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.routing import Choice, Int64
from testing.oracles.moe.stages import ExpertLayout, coherent, product_noise
from testing.oracles.rounding import FloatType, round_to, ulp
from testing.oracles.statistics import Comparison


@dataclass(frozen=True)
class Arithmetic:
    """What a runner rounds on its way.

    kind: of x, h and the output.
    gate_up: what the first product is stored in, None where it stays float32.
    rounds_hidden: h is rounded to `kind` before it is quantised.
    down: what the second product is stored in, None where it stays float32.
    weighted: what that times its weight is stored in before the sum, None for float32.
    weights: what the router's weights are rounded to, None for float32.
    accumulator: of both products.
    """

    kind: FloatType
    gate_up: FloatType | None = None
    rounds_hidden: bool = True
    down: FloatType | None = None
    weighted: FloatType | None = None
    weights: FloatType | None = None
    accumulator: Accumulator = FP32_SUMS


@dataclass(frozen=True)
class Uncertain:
    """Values, the most that a kernel's may differ by, and the standard deviation of that."""

    value: Float64
    bound: Float64
    std: Float64

    def rounded(self, kind: FloatType | None) -> Uncertain:
        """To `kind`: certain, or one of two neighbours.

        The neighbour is taken with a probability of |ε|/ulp, so E d² ≤ ulp·E|ε| + E ε².
        """
        if kind is None:
            return self
        low, value, high = (
            round_to(self.value + sign * self.bound, kind) for sign in (-1.0, 0.0, 1.0)
        )
        bound = np.maximum(high - value, value - low)
        flips = np.sqrt(ulp(self.value, kind) * self.std + self.std**2)
        return Uncertain(value, bound, np.where(bound > 0, flips, 0.0))


@dataclass(frozen=True)
class _Part:
    """What one expert adds to the rows `tokens` of the output, and what is uncertain of its h.

    own: (P, H) its weighted rows. shared: (P, H) what a whole row may have of one sign.
    hidden: (P, I) the bound of h, weighted. weight: (H, I).
    """

    expert: int
    tokens: Int64
    own: Uncertain
    shared: Float64
    hidden: Float64
    weight: Float64


def compare_output(
    checkpoint: MoeCheckpoint, x: Float64, choice: Choice, got: Float64, arithmetic: Arithmetic
) -> Comparison:
    """A layer's output (T, H) for x (T, H) and the router's choice beside the whole reference."""
    experts, shape = len(checkpoint.experts), got.shape
    encoded = checkpoint.input_rule.encode(x)
    parts = np.zeros((experts, *shape))
    found: list[_Part] = []
    for expert in range(experts):
        tokens, slots = np.nonzero(choice.ids == expert)
        if len(tokens):
            part = _part_of(checkpoint, expert, tokens, slots, encoded, choice, arithmetic)
            parts[expert, tokens] = part.own.value
            found.append(part)
    layout = ExpertLayout.of(experts, shape[1])
    exact = parts.sum(axis=0)
    plain = Comparison(got, parts, exact, no_noise(shape), arithmetic.kind, layout)
    return replace(plain, noise=_noise(plain, found, choice.ids.shape[1]))


def _part_of(
    checkpoint: MoeCheckpoint,
    expert: int,
    tokens: Int64,
    slots: Int64,
    encoded: Activations,
    choice: Choice,
    arithmetic: Arithmetic,
) -> _Part:
    weight, error = (a[tokens, slots][:, None] for a in (choice.weights, choice.error))
    if arithmetic.weights:
        known = Uncertain(weight, error, error).rounded(arithmetic.weights)
        weight, error = known.value, known.bound
    slack = encoded.near_tie * encoded.step
    h = _hidden(checkpoint, expert, encoded.values[tokens], slack[tokens], arithmetic)
    h = _quantised(checkpoint.hidden_rules[expert], h)
    down = _down(checkpoint, expert, h, arithmetic).rounded(arithmetic.down)
    shared = error * np.abs(down.value)
    own = Uncertain(weight * down.value, weight * down.bound + shared, weight * down.std)
    own = own.rounded(arithmetic.weighted)
    return _Part(expert, tokens, own, shared, weight * h.bound, checkpoint.w2[expert])


def _noise(comparison: Comparison, parts: list[_Part], choices: int) -> Noise:
    """Of the weighted sum: K products and sums in float32, in any order, and what the parts have.

    A flip of one value of h is no independent error of a row's elements: see `stages.coherent`.
    """
    shape, tau = comparison.exact.shape, comparison.typical_ulp()
    size = gamma(choices) * np.abs(comparison.parts).sum(axis=0) + (choices + 1) * 2.0**-126
    bound, shared, variance = size.copy(), np.zeros(shape), size**2 / 3
    for part in parts:
        rows = part.tokens
        bound[rows] += part.own.bound
        variance[rows] += part.own.std**2
        regressors = (comparison.exact[rows], part.own.value)
        shared[rows] += part.shared + coherent(tau[rows], regressors, part.hidden, part.weight)
    return Noise(bound, np.sqrt(variance), shared)


def _hidden(
    checkpoint: MoeCheckpoint, expert: int, x: Float64, slack: Float64, arithmetic: Arithmetic
) -> Uncertain:
    """h (P, I) of one expert's tokens."""
    weight = checkpoint.w13[expert]
    product = Product(x, weight, checkpoint.bias13(expert))
    noise = product_noise(checkpoint.format, product, arithmetic.accumulator, True)
    tied = slack @ np.abs(weight).T
    gate_up = Uncertain(product.exact, noise.bound + tied, noise.std + tied)
    gate_up = gate_up.rounded(arithmetic.gate_up)
    size = checkpoint.intermediate_size
    gate, up = slice(0, size), slice(size, 2 * size)
    name, value = checkpoint.activation, gate_up.value
    bounds, stds = gate_up.bound, gate_up.std
    wide = spread(name, value[:, gate], value[:, up], bounds[:, gate], bounds[:, up])
    typical = spread(name, value[:, gate], value[:, up], stds[:, gate], stds[:, up])
    h = Uncertain(wide.value, wide.bound, typical.bound)
    return h.rounded(arithmetic.kind if arithmetic.rounds_hidden else None)


def _quantised(rule: ActivationRule, h: Uncertain) -> Uncertain:
    """ĥ (P, I) of an uncertain h.

    A dynamic scale follows from the largest |h| of a group, which lies between what it is if all
    |h| are as small, and if all are as large, as they may be. Where both give the same step, so
    that the scale is known, the value lies between those of the two, since codes are monotone in h.
    Elsewhere a certain cell has one of the codes that these give it, and an uncertain one moves by
    as much as h, and by half a step on either side.
    """
    middle = rule.encode(h.value)
    if not rule.quantises:
        return h
    sign = np.where(h.value < 0, -1.0, 1.0)
    ends = [rule.encode(sign * np.maximum(np.abs(h.value) + side * h.bound, 0)) for side in (-1, 1)]
    step = np.maximum.reduce([middle.step, *(end.step for end in ends)])
    fixed = (ends[0].step == step) & (ends[1].step == step) & (middle.step == step)
    moved = np.maximum.reduce([np.abs(end.values - middle.values) for end in ends])
    tied: Mask = np.logical_or.reduce([middle.near_tie, *(end.near_tie for end in ends)])
    loose = ~fixed & (h.bound > 0)
    bound = np.where(loose, np.maximum(moved, h.bound + step), moved) + tied * step
    flips = np.minimum(bound, np.sqrt(step * h.std) + h.std)
    return Uncertain(middle.values, bound, np.where(fixed & ~tied, flips, bound))


def _down(
    checkpoint: MoeCheckpoint, expert: int, h: Uncertain, arithmetic: Arithmetic
) -> Uncertain:
    """(P, H) of one expert's tokens, in float32."""
    weight = checkpoint.w2[expert]
    product = Product(h.value, weight, checkpoint.bias2(expert))
    noise = product_noise(checkpoint.format, product, arithmetic.accumulator, True)
    return Uncertain(
        product.exact,
        noise.bound + h.bound @ np.abs(weight).T,
        np.hypot(noise.std, np.sqrt(h.std**2 @ (weight**2).T)),
    )
