"""How far a right kernel's attention may lie from the definition's, by element and by row.

Notation: a row is one query of one head; p_j its probabilities, o = Σ p_j·v_j; u = 2^-24; E² = Σ
p_j²·v_j² and A = Σ p_j·|v_j| of one element; w_j = exp(x_j - top). The kernel stores round(o + ε).

Relative errors δ_j of w_j. They stand in numerator and denominator, so ε = Σ p_j·δ_j·(v_j - o):

- The logit's sum over D: a walk of √D·u·e, e² = Σ_d (q_d·k_d)², times the scaling
  (`error_model.sums`); on tensor cores also what these cut off (`error_model.tensor_cores`): the
  grid 2^(1-bits) at the scale e, D of them, and at most D/16 cuts of the stored sum. Independent of
  j.
- Its scaling: two constants that are themselves rounded (scaling·log2(e), an fp8 cache's k_scale),
  which all rows share: 2 systematic roundings of |x_j|. Their products, and the subtraction of the
  running maximum, alone or fused: 4 roundings of |x_j| and 2 of |top|.
- Soft cap: `Arithmetic.tanh`·cap, and 3 roundings of |x_j|. An approximate tanh is a function of
  its argument, with one sign over whole ranges: systematic.
- exp: `ex2.approx.ftz.f32` 2^-22 (PTX ISA); float32 libraries 1 ulp. A product with log2(e) before
  it is a rounding of |x_j - top|, at most 2·|top|: within the above.
- Rounding w_j to 16 bits, where the backend declares it: to nearest, at most half an ulp u_p = 2^-8
  or 2^-11, uniform, so that its variance is at most u_p²/3; fp16 has 2^-25 as its smallest half
  ulp. The denominator may have been formed before it or after it: (v_j - o) or v_j, whichever is
  more. A tensor core is given w_j relative to the maximum so far, or of its split, which only makes
  it larger; u_p is relative, and fp16's smallest grows less harmful.

Online softmax. Where the running maximum rises, what was summed so far is multiplied by exp(old -
new): 2^-22, two roundings, and 4 of |top|. Over any blocks taken in order, forwards or backwards,
the maximum rises at most as often as a single key's logit is a record, R times. Splits of the keys
are merged by weights exp(lse - largest): once more the same, for R + 2 in all. Each is an error of
a part of the sum Σ p_j·v_j, which has the scale √(E² + o²), and independent of other rows'.

The product with v: a walk of √L·u·√(E² + o²) over L keys (partial sums scatter by E, as signs of v
are random in every probe, around a line that ends at o), and on tensor cores what is cut off there.
The sum of probabilities is of positive terms: √L·u, and on tensor cores L/16 cuts of 2^-23, all of
one sign: systematic. Then 4 roundings of |o|: 1/total, its product, v_scale and its product.

By element: what is independent of j is a sum of bounded terms, which exceeds 8 of √Σ(its terms'
bounds²) with 2·exp(-32) (Hoeffding, JASA 58, 1963), or its worst case if that is smaller.

By row: probes ask for the gain, Σ_d o_d·ε_d. Errors of p_j move all d of a row at once, so its
variance is Σ_j p_j²·s_j²·(v_j·o)² (or (v_j - o)·o), not that of Dv independent elements.
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.attention.arithmetic import Arithmetic
from testing.oracles.attention.dense import Attended
from testing.oracles.error_model.accumulators import Accumulator
from testing.oracles.error_model.noise import gamma
from testing.oracles.rounding import FP16, FP32, FloatType, ulp

_UNIT = FP32.unit_roundoff
_EXP = 2.0**-22
_TAIL = 32.0
"""Of a product of two subgaussian deviations: 2·exp(-32), as in `error_model.sums`."""
_HOEFFDING = 8.0
_WALK = float(np.sqrt(0.18))
"""Deviation of one rounding of a value with a significand uniform in its logarithm, in u."""


@dataclass(frozen=True)
class RowNoise:
    """What a right kernel may add before its last rounding.

    bound, std: (S, Hq, Dv) largest |ε|, and its standard deviation.
    projected: (S, Hq) variance of Σ_d o_d·ε_d.
    shared: (S, Hq) the part of Σ_d o_d·ε_d that may have one sign over many rows.
    """

    bound: Float64
    std: Float64
    projected: Float64
    shared: Float64


@dataclass(frozen=True)
class _Relative:
    """Errors of the weights w_j: (Hq, S, L) each.

    std, bound: of what is independent of j; systematic: what has one sign.
    """

    std: Float64
    bound: Float64
    systematic: Float64


def attention_noise(attended: Attended, arithmetic: Arithmetic, kind: FloatType) -> RowNoise:
    """attended: what the definition gives for one request; kind: the output's type."""
    p, v = attended.probabilities, attended.v
    o = attended.output.transpose(1, 0, 2)
    weights = _weight_errors(attended, arithmetic)
    rounded = p * _rounded_weights(attended, arithmetic.probabilities(kind))
    sums = _Sums(p, v, o)
    parts = [
        _spread(p * weights.std, p * weights.bound, sums, about=True),
        _spread(rounded / np.sqrt(3), rounded, sums, about=False),
        _product(sums, arithmetic.accumulator),
        _rises(attended, sums),
    ]
    systematic = _row_systematic(attended, arithmetic)
    lean = p * weights.systematic
    bound = lean @ np.abs(v) + np.abs(o) * (lean.sum(axis=2) + systematic)[..., None]
    # Of the definition itself, which float64 works out.
    bound += 2.0**-45 * sums.absolute
    bound += sum(part.bound for part in parts)
    variance = sum(part.std**2 for part in parts)
    projected = sum(part.projected for part in parts)
    if arithmetic.output_roundings > 1:
        # Of o / v_scale, whose ulp may be twice as large beside it as o's own.
        half = ulp(o, kind)
        bound, variance = bound + half, variance + half**2 / 3
        projected = projected + (half**2 / 3 * o**2).sum(axis=2)
    shared = (lean * np.abs(sums.toward - sums.own)).sum(axis=2)
    shared += systematic * sums.own[..., 0]
    std = np.sqrt(variance)
    return RowNoise(bound.transpose(1, 0, 2), std.transpose(1, 0, 2), projected.T, shared.T)


class _Sums:
    """Sums over keys that errors scale with: p (Hq, S, L), v (Hq, L, Dv), o (Hq, S, Dv).

    absolute: A; euclidean: E, (Hq, S, Dv). toward: (Hq, S, L) v_j·o; own: (Hq, S, 1) o·o.
    """

    def __init__(self, p: Float64, v: Float64, o: Float64) -> None:
        self.p, self.v, self.o = p, v, o
        self.absolute: Float64 = p @ np.abs(v)
        self.euclidean: Float64 = np.sqrt(p**2 @ v**2)
        self.toward: Float64 = o @ v.transpose(0, 2, 1)
        self.own: Float64 = (o**2).sum(axis=2, keepdims=True)


@dataclass(frozen=True)
class _Spread:
    """An error's deviation and bound by element, (Hq, S, Dv); projected: (Hq, S) as `RowNoise`."""

    std: Float64
    bound: Float64
    projected: Float64


def _spread(std: Float64, bound: Float64, sums: _Sums, about: bool) -> _Spread:
    """Independent errors of that size times v_j - o (about), or the larger of that and v_j."""
    largest = np.sqrt(_squares(bound, sums, about))
    worst = bound @ np.abs(sums.v) + np.abs(sums.o) * bound.sum(axis=2, keepdims=True)
    away = np.abs(sums.toward - sums.own)
    if not about:
        away = np.maximum(away, np.abs(sums.toward))
    return _Spread(
        np.sqrt(_squares(std, sums, about)),
        np.minimum(worst, _HOEFFDING * largest),
        ((std * away) ** 2).sum(axis=2),
    )


def _squares(size: Float64, sums: _Sums, about: bool) -> Float64:
    square, o = size**2, sums.o
    plain = square @ sums.v**2
    centred = plain - 2 * o * (square @ sums.v) + o**2 * square.sum(axis=2, keepdims=True)
    centred = np.maximum(centred, 0.0)
    return centred if about else np.maximum(plain, centred)


def _weight_errors(attended: Attended, arithmetic: Arithmetic) -> _Relative:
    """Of w_j, the rounding to 16 bits left out."""
    scaling = attended.rule.scaling
    squares = np.sqrt(attended.q**2 @ (attended.k**2).transpose(0, 2, 1))
    absolute = np.abs(attended.q) @ np.abs(attended.k).transpose(0, 2, 1)
    walk = _walk_of(attended.q.shape[2], squares, np.abs(attended.raw) / abs(scaling), absolute)
    cut = _cut_of(attended.q.shape[2], squares, arithmetic.accumulator)
    size, top = np.abs(attended.raw), np.abs(attended.top)[..., None]
    std = np.hypot(scaling * np.hypot(walk[0], cut[0]), _UNIT * (2 * size + top))
    bound = scaling * (walk[1] + cut[1]) + gamma(4) * size + gamma(2) * top
    systematic = gamma(2) * size
    if attended.rule.soft_cap:
        bound = bound + gamma(3) * size
        systematic = systematic + arithmetic.tanh * attended.rule.soft_cap
    return _Relative(np.hypot(std, _EXP / np.sqrt(3)), bound + _EXP, systematic)


def _rounded_weights(attended: Attended, kind: FloatType | None) -> Float64:
    """(Hq, S, L): the largest relative error of rounding w_j to `kind`; 0 where it is not."""
    weights = attended.weights
    if kind is None:
        return np.zeros_like(weights)
    relative = np.full_like(weights, kind.unit_roundoff)
    if kind is FP16:
        smallest = 2.0 ** (kind.min_exponent - kind.significand_bits)
        with np.errstate(divide="ignore"):
            relative = np.maximum(relative, np.minimum(smallest / weights, 1.0))
    return relative


def _product(sums: _Sums, accumulator: Accumulator) -> _Spread:
    """Adding up Σ p_j·v_j."""
    keys = (sums.p > 0).sum(axis=2, keepdims=True).astype(float)
    walk = _walk_of(keys, sums.euclidean, np.abs(sums.o), sums.absolute)
    cut = _cut_of(keys, sums.euclidean, accumulator)
    std = np.hypot(walk[0], cut[0])
    return _Spread(std, walk[1] + cut[1], ((std * sums.o) ** 2).sum(axis=2))


Pair = tuple[Float64, Float64]
"""A deviation and a bound."""


def _walk_of(terms: Float64 | int, squares: Float64, total: Float64, absolute: Float64) -> Pair:
    """Additions in float32: `error_model.sums`, with partial sums around a line to the total."""
    additions = np.maximum(np.asarray(terms, float) - 1, 0)
    walk = _UNIT * np.sqrt(additions) * np.hypot(squares, total)
    worst = additions * _UNIT * absolute
    return np.minimum(_WALK * walk, worst), np.minimum(_TAIL * walk, worst)


def _cut_of(terms: Float64 | int, squares: Float64, accumulator: Accumulator) -> Pair:
    """What tensor cores cut off; `error_model.tensor_cores` derives the constants."""
    if not accumulator.truncates:
        return np.zeros_like(squares), np.zeros_like(squares)
    count = np.asarray(terms, float)
    grid, cuts = 2.0 ** (1 - accumulator.bits), count / accumulator.at_once
    products = 0.4 * np.sqrt(1 / 3) * grid * np.sqrt(count) * squares
    stored = 2.0 ** (1 - accumulator.stored) * cuts * squares
    return np.hypot(products, 0.19 * stored), 20 * products + 8 * stored


def _rises(attended: Attended, sums: _Sums) -> _Spread:
    """Errors that a part of a row's sum shares: rescaling, merging, the total and its quotient."""
    keys = np.isfinite(attended.logits).sum(axis=2).astype(float)
    rises, top = _records(attended.logits) + 2, np.abs(attended.top)
    each = _EXP + gamma(2) + gamma(4) * top
    total = _UNIT * np.sqrt(keys)
    std = np.sqrt((rises * each**2 + total**2 + gamma(4) ** 2) / 3)
    bound = gamma(4) + rises * each + np.minimum(keys * _UNIT, _TAIL * total)
    part = np.hypot(sums.euclidean, sums.o)
    most = np.minimum(sums.absolute, _HOEFFDING * sums.euclidean) + np.abs(sums.o)
    squares = ((sums.p * sums.toward) ** 2).sum(axis=2) + sums.own[..., 0] ** 2
    return _Spread(std[..., None] * part, bound[..., None] * most, std**2 * squares)


def _row_systematic(attended: Attended, arithmetic: Arithmetic) -> Float64:
    """(Hq, S): relative errors of one sign: cuts of the sum of probabilities."""
    keys = np.isfinite(attended.logits).sum(axis=2).astype(float)
    accumulator = arithmetic.accumulator
    if not accumulator.truncates:
        return np.zeros_like(keys)
    return np.asarray(keys / accumulator.at_once * 2.0 ** (1 - accumulator.stored))


def _records(logits: Float64) -> Float64:
    """(Hq, S): how often a logit exceeds all before it, or all after it, whichever is more."""
    counts = []
    for order in (logits, logits[..., ::-1]):
        running = np.maximum.accumulate(order, axis=2)
        counts.append((running[..., 1:] > running[..., :-1]).sum(axis=2))
    return np.asarray(np.maximum(*counts), np.float64)
