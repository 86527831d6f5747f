"""What activation rules with floating-point codes share: noise, and the way back to a code."""

from abc import abstractmethod

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.codecs.grid import Grid
from testing.oracles.codecs.quantised import Quantised
from testing.oracles.formats import ActivationRule, Activations

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


class FloatRule(ActivationRule):
    """Codes of a grid under scales.

    grid: the magnitudes of the codes.
    block: values of a row that share a scale; None: the whole row.
    """

    grid: Grid
    block: int | None = None

    @abstractmethod
    def detail(self, x: Float64) -> Quantised:
        """What the codec leaves of x (m, k)."""

    @abstractmethod
    def scales(self, x: Float64) -> Float64:
        """(m, k) scale of each element: x̂ = code · scale; 0 in a block of zeros."""

    def encode(self, x: Float64) -> Activations:
        """As the codec says."""
        detail = self.detail(x)
        return Activations(detail.values, detail.step, detail.near_tie)

    def snap(self, read: Float64, like: Activations) -> Float64:
        """The nearest multiple of half a step from the code that should be there.

        Below a power of two codes lie half as far apart as above it. bf16 moves a code by 2^-9 of
        itself, an eighth of half a step of e4m3 at most.
        """
        half = np.where(like.step == 0, 1.0, like.step / 2)
        moved = np.rint((read - like.values) / half) * half
        return like.values + np.where(like.step == 0, 0.0, moved)

    def relative_noise(self, x: Float64) -> float:
        """From the gaps between codes that x falls into, and normal data within a gap.

        The element that sets the scale has no luck in its error: it is taken as it is.
        """
        scale = np.where(self.scales(x) == 0, 1.0, self.scales(x))
        quotient = np.abs(x) / scale
        largest = block_maxima(quotient, self.block)
        spread = np.sqrt(np.mean(x**2, axis=1, keepdims=True)) / scale
        power = gap_noise(self.grid, quotient, largest, spread)
        sets_scale = quotient == largest
        exact = (self.grid.magnitudes[self.grid.nearest(quotient)] - quotient) ** 2
        power = np.where(sets_scale, exact, power)
        return float(np.sqrt(np.mean(power * scale**2) / np.mean(x**2)))


def block_maxima(x: Float64, block: int | None) -> Float64:
    """(m, k) largest |x| of the block that an element is in; a last block may be partial."""
    k = x.shape[1]
    width = block or k
    starts = np.arange(0, k, width)
    maxima = np.maximum.reduceat(np.abs(x), starts, axis=1)
    return np.repeat(maxima, width, axis=1)[:, :k]


def gap_noise(grid: Grid, quotient: Float64, largest: Float64, spread: Float64) -> Float64:
    """Mean square of the rounding error of a normal value, given the gap that it falls into.

    quotient: (m, k) |x|/scale; only the gap it lies in counts.
    largest: (m, k) what no value of its block exceeds.
    spread: (m, k) or (m, 1) standard deviation of x/scale.
    """
    magnitudes = grid.magnitudes
    gap = np.clip(np.searchsorted(magnitudes, quotient, side="right") - 1, 0, len(magnitudes) - 1)
    low = magnitudes[gap]
    top = np.append(magnitudes[1:], np.inf)[gap]
    high = np.minimum(top, np.maximum(largest, low * (1 + 1e-9) + 1e-300))
    middle = np.where(np.isinf(top), high, np.minimum((low + top) / 2, high))
    mass = np.zeros(np.broadcast_shapes(quotient.shape, spread.shape))
    power = np.zeros_like(mass)
    for start, stop, code in ((low, middle, low), (middle, high, top)):
        half = (stop - start) / 2
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            v = start + half * (1 + node)
            density = weight * half * np.exp(-((v**2 - low**2) / (2 * spread**2)))
            mass += density
            power += density * np.where(half > 0, (v - np.where(np.isinf(code), v, code)) ** 2, 0.0)
    return power / np.maximum(mass, np.finfo(float).tiny)
