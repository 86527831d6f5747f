"""Tests for a bias of any part of an attention output, with a stated false-alarm rate.

As `testing.oracles.statistics` does for products: with y the output and round(o) what an exact
kernel stores, d = y - round(o), and a relative bias g makes E d = g·o. A row (one query of one
head) adds

    X = c·Σ_d o_d·d_d,   1/c = mean over d of (ulp²/12 + σ²)

to the sum of a place. d is ε, which all elements of a row may share, and a flip η of the last
rounding, which is independent by element, has mean zero, at most an ulp, and the variance E f·(1 -
f) ulp² of a fraction f = |ε|/ulp: at most min(|ε|/ulp, 1/4). A subgaussian part and a bounded one
together stay within Bennett's bound for the sum of their variances, as exp(x) - 1 - x ≥ x²/2 for x
≥ 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.error_model import RowNoise
from testing.oracles.attention.paging import Int64
from testing.oracles.rounding import FloatType, round_to, ulp
from testing.oracles.statistics import FALSE_ALARMS, bennett_score


@dataclass(frozen=True)
class RowComparison:
    """Outputs of a call beside what they should be.

    got, exact: (T, H, Dv); noise: of the same rows.
    places: {family: (names, (T, H) number of each row's place)}.
    """

    got: Float64
    exact: Float64
    noise: RowNoise
    kind: FloatType
    places: Mapping[str, tuple[Sequence[str], Int64]]

    @cached_property
    def residual(self) -> Float64:
        """(T, H, Dv): y - round(o)."""
        return self.got - round_to(self.exact, self.kind)

    @cached_property
    def outside(self) -> Mask:
        """(T, H, Dv): where y is not within [round(o - a), round(o + a)]."""
        low = round_to(self.exact - self.noise.bound, self.kind)
        high = round_to(self.exact + self.noise.bound, self.kind)
        return ~((low <= self.got) & (self.got <= high))


@dataclass(frozen=True)
class RowEvidence:
    """One family's tests, an entry a place: estimated bias, and -log of its chance probability."""

    names: Sequence[str]
    gain: Float64
    score: Float64

    @property
    def rejected(self) -> Mask:
        """Places whose bias is significant at the family's false-alarm rate."""
        return np.asarray(self.score > np.log(len(self.names) / FALSE_ALARMS))

    @property
    def worst_z(self) -> float:
        """The largest score as the normal deviate of the same Chernoff bound."""
        return float(np.sqrt(2 * max(0.0, float(self.score.max()))))


def row_evidence(comparison: RowComparison) -> dict[str, RowEvidence]:
    """Test every family of places."""
    o, noise = comparison.exact, comparison.noise
    spacing = ulp(o, comparison.kind)
    flips = np.minimum(spacing * noise.std, spacing**2 / 4)
    flips = np.where(noise.bound > 0, flips, 0.0)
    c = 1 / np.mean(spacing**2 / 12 + noise.std**2, axis=2)
    total = c * (o * comparison.residual).sum(axis=2)
    information = c * (o**2).sum(axis=2)
    variance = c**2 * (noise.projected + (o**2 * flips).sum(axis=2))
    largest = c * (np.abs(o) * spacing).max(axis=2)
    fields = (total, information, variance, c * noise.shared)
    return {
        family: _family(names, number, fields, largest)
        for family, (names, number) in comparison.places.items()
    }


def _family(
    names: Sequence[str], number: Int64, fields: Sequence[Float64], largest: Float64
) -> RowEvidence:
    flat, count = number.ravel(), len(names)
    total, information, variance, shared = (
        np.bincount(flat, field.ravel(), minlength=count) for field in fields
    )
    limit = np.zeros(count)
    np.maximum.at(limit, flat, largest.ravel())
    information = np.maximum(information, np.finfo(float).tiny)
    significant = np.maximum(np.abs(total) - shared, 0.0)
    return RowEvidence(names, total / information, bennett_score(significant, variance, limit))
