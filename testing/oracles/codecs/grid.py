"""Round to nearest even on a format with few values: the table of its magnitudes is the definition.

Codes of a sign-magnitude format grow with the magnitude, and the lowest bit of a code is the lowest
bit of its significand. So the nearest value is found between two midpoints, and of two equally near
ones the one with the even code is taken (IEEE 754-2019, section 4.3.1, roundTiesToEven).
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Mask

Codes: TypeAlias = NDArray[np.uint8]
"""Codes of a format, one a byte, or bytes that hold two."""


@dataclass(frozen=True)
class Grid:
    """A format's magnitudes, ascending; the index of one is its code without the sign."""

    magnitudes: Float64

    @property
    def maximum(self) -> float:
        """The largest magnitude; encoding saturates there."""
        return float(self.magnitudes[-1])

    @property
    def midpoints(self) -> Float64:
        """Halfway between neighbours. Midpoints of such few bits are exact in float64."""
        return (self.magnitudes[1:] + self.magnitudes[:-1]) / 2

    def nearest(self, x: Float64) -> NDArray[np.intp]:
        """Code of the magnitude nearest to |x|, ties to even; the last one above the maximum."""
        size, midpoints = np.abs(x), self.midpoints
        below = np.searchsorted(midpoints, size, side="left")
        above = np.searchsorted(midpoints, size, side="right")
        return np.where(below % 2 == 0, below, above)

    def spacing(self, x: Float64) -> Float64:
        """Distance between the two magnitudes around |x|; the last one's from the maximum on."""
        gap = np.searchsorted(self.magnitudes, np.abs(x), side="right") - 1
        return np.diff(self.magnitudes)[np.clip(gap, 0, len(self.magnitudes) - 2)]

    def near_tie(self, x: Float64, window: float) -> Mask:
        """Where |x| lies within window·|x| of a midpoint, so that two codes are right.

        Nothing is near a tie above the last midpoint: what is larger saturates.
        """
        size, midpoints = np.abs(x), self.midpoints
        place = np.searchsorted(midpoints, size)
        last = len(midpoints) - 1
        nearest = np.minimum(
            np.abs(size - midpoints[np.clip(place - 1, 0, last)]),
            np.abs(size - midpoints[np.clip(place, 0, last)]),
        )
        with np.errstate(invalid="ignore"):
            return np.isfinite(size) & (nearest <= window * size)
