"""Tests for a bias of any part of a layer's output, with a stated false-alarm rate.

With y the output, r the exact product and round(r) what a right kernel stores, the residual is
d = y - round(r). If a part of the output carries a relative bias g, then E d = g·P there, P being
what that part adds to r (the whole of r, or a K block's share). The statistic is the weighted sum
S = Σ P·d/τ², τ the ulp at an element's typical size, and the estimate g = S / Σ (P/τ)².

Under the null d comes from ε of the error model alone: it is 0, or ±1 ulp with probability
|ε|/ulp, so E d² ≤ ulp·E|ε| + E ε². These are few and large, not normal, so significance comes from
Bennett's inequality (JASA 57, 1962) instead of a normal tail: for independent zero-mean terms with
variance V in all and none beyond b,

    P(S ≥ t) ≤ exp(-V/b² · h(b·t/V)),  h(u) = (1 + u)·log(1 + u) - u.

It tends to exp(-t²/2V) for many small terms and to a Poisson tail for few flips. What the error
model lets all elements share is first taken off |S|. A family (all rows, all tiles, …) is tested at
FALSE_ALARMS in all, by Bonferroni.
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.error_model.noise import Noise
from testing.oracles.places import Layout, Place, families
from testing.oracles.rounding import FloatType, round_to, ulp

FALSE_ALARMS = 1e-6


@dataclass(frozen=True)
class Comparison:
    """An output beside what it should be.

    got: (M, N) as the layer stored it, in values of `kind`.
    parts: (B, M, N) what each K block adds to the exact product.
    exact: (M, N) the exact result, bias included.
    noise: error model of a right kernel.
    """

    got: Float64
    parts: Float64
    exact: Float64
    noise: Noise
    kind: FloatType
    layout: Layout

    def residual(self) -> Float64:
        """(M, N) y - round(r)."""
        return self.got - round_to(self.exact, self.kind)

    def typical_ulp(self) -> Float64:
        """(M, N) τ: ulp at the element or at its row's and column's typical size if larger.

        An element that cancels to nearly nothing would otherwise outweigh all others.
        """
        square = self.exact**2
        mean = max(float(square.mean()), np.finfo(float).tiny)
        rank_one = np.outer(square.mean(axis=1), square.mean(axis=0)) / mean
        return ulp(np.maximum(np.abs(self.exact), np.sqrt(rank_one)), self.kind)

    def outside(self) -> Mask:
        """(M, N) where y is not within [round(r - a), round(r + a)]."""
        low = round_to(self.exact - self.noise.bound, self.kind)
        high = round_to(self.exact + self.noise.bound, self.kind)
        return ~((low <= self.got) & (self.got <= high))


@dataclass(frozen=True)
class Evidence:
    """One family's tests, an entry a place.

    gain: estimated relative bias; deviation: its standard deviation under the null.
    score: -log of the bound on the probability of as much under the null, two-sided.
    symmetric: the same if errors had either sign with equal chance, whatever their sizes:
        P(S ≥ t·√Σ(P·d/τ²)²) ≤ exp(-t²/2) (Efron, JASA 64, 1969).
    reduction: how much of Σ (d/τ)² the bias would explain.
    """

    places: list[Place]
    gain: Float64
    deviation: Float64
    score: Float64
    symmetric: Float64
    reduction: Float64

    @property
    def rejected(self) -> Mask:
        """Places whose bias is significant at the family's false-alarm rate."""
        return self.score > self.threshold

    @property
    def threshold(self) -> float:
        """The score from which a place of this family is significant."""
        return float(np.log(len(self.places) / FALSE_ALARMS))

    @property
    def worst_z(self) -> float:
        """The largest score as the normal deviate with the same Chernoff bound exp(-z²/2)."""
        return float(np.sqrt(2 * max(0.0, float(self.score.max()))))


def bennett_score(total: Float64, variance: Float64, largest: Float64) -> Float64:
    """-log of Bennett's two-sided bound; `total` ≥ 0, `variance` Σ var, `largest` max |term|."""
    total, variance, largest = (np.asarray(a, np.float64) for a in (total, variance, largest))
    tiny = np.finfo(float).tiny
    variance, largest = np.maximum(variance, tiny), np.maximum(largest, np.sqrt(tiny))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        u = largest * total / variance
        # V/b²·h(bt/V) written so that V → 0 stays finite: (t/b)·(((1 + u)/u)·log(1 + u) - 1).
        steep = total / largest * ((1 + 1 / u) * np.log1p(u) - 1)
        gentle = total**2 / (2 * variance)
    return np.asarray(np.where(u < 1e-4, gentle, steep) - np.log(2))


def evidence(
    comparison: Comparison,
    residual: Float64 | None = None,
    variance: Float64 | None = None,
) -> dict[str, Evidence]:
    """Test every family of places.

    residual: (M, N), in place of the comparison's own.
    variance: (M, N) of the residual in units of τ², in place of the error model's.
    """
    tau = comparison.typical_ulp()
    spacing, noise = ulp(comparison.exact, comparison.kind), comparison.noise
    d = (comparison.residual() if residual is None else residual) / tau
    if variance is None:
        variance = (spacing * noise.std + noise.std**2) / tau**2
    limit = np.maximum((spacing + noise.bound) / tau, np.sqrt(variance))
    shared = noise.systematic / tau
    product = comparison.parts.sum(axis=0)
    moments: dict[int | None, _Moments] = {
        None: _Moments.of(product / tau, d, variance, limit, shared)
    }
    for block, part in enumerate(comparison.parts):
        moments[block] = _Moments.of(part / tau, d, variance, limit, shared)
    tested = families(comparison.layout, len(comparison.got))
    return {name: _family(places, moments) for name, places in tested.items()}


@dataclass(frozen=True)
class _Moments:
    """Sums over rows and over columns of what the statistic needs, for one regressor."""

    by_column: Float64
    by_row: Float64
    column_limit: Float64
    row_limit: Float64

    @classmethod
    def of(
        cls, p: Float64, d: Float64, variance: Float64, limit: Float64, shared: Float64
    ) -> "_Moments":
        size = np.abs(p)
        fields = (p * d, p * p, p * p * variance, size * shared, (p * d) ** 2)
        return cls(
            np.stack([f.sum(axis=0) for f in fields]),
            np.stack([f.sum(axis=1) for f in fields]),
            (size * limit).max(axis=0),
            (size * limit).max(axis=1),
        )


def _family(places: list[Place], moments: dict[int | None, _Moments]) -> Evidence:
    sums, largest = [], []
    for place in places:
        source = moments[place.k_block]
        if place.family == "row":
            sums.append(source.by_row[:, place.rows.start])
            largest.append(source.row_limit[place.rows.start])
        else:
            sums.append(source.by_column[:, place.columns].sum(axis=1))
            largest.append(source.column_limit[place.columns].max())
    total, information, variance, shared, squares = np.array(sums).T
    tiny = np.finfo(float).tiny
    information = np.maximum(information, tiny)
    return Evidence(
        places,
        total / information,
        np.sqrt(variance) / information,
        bennett_score(np.maximum(np.abs(total) - shared, 0), variance, np.array(largest)),
        total**2 / (2 * np.maximum(squares, tiny)) - np.log(2),
        total**2 / information,
    )
