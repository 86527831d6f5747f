"""E4M3 (the E4M3FN of ml_dtypes and torch): 8-bit floating point, OCP OFP8 1.0, table 2.

Sign, four exponent bits of bias 7, three significand bits: ±448 is the largest value, 2^-9 the
smallest (subnormals have the exponent 2^-6), 0x7F and 0xFF are NaN, there is no infinity.

Rounding: to nearest, ties to even, in one step from float64; saturating, as OFP8's saturating mode
and PTX `cvt.rn.satfinite.e4m3x2.f32` do: what is larger than 448, and infinity, becomes ±448. The
sign of zero and of what underflows is kept. NaN stays NaN with its sign.
Casts of ml_dtypes and of torch up to 2.12 give NaN above 464 instead; torch 2.13 saturates.
"""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.codecs.grid import Codes, Grid

MAX = 448.0
NAN = 0x7F
_EXPONENT, _FRACTION = np.divmod(np.arange(NAN), 8)
_SUBNORMAL = _EXPONENT == 0
GRID = Grid(
    np.ldexp(np.where(_SUBNORMAL, _FRACTION, 8 + _FRACTION), np.maximum(_EXPONENT, 1) - 10).astype(
        np.float64
    )
)
_VALUES = np.concatenate([GRID.magnitudes, [np.nan]])
_VALUES = np.concatenate([_VALUES, np.copysign(_VALUES, -1.0)])


def encode(x: Float64) -> Codes:
    """x of any shape → codes uint8: half to even, saturating at ±448, NaN → 0x7F | sign."""
    x = np.asarray(x, np.float64)
    code = np.where(np.isnan(x), NAN, GRID.nearest(x))
    return (code | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


def decode(codes: Codes) -> Float64:
    """codes uint8 of any shape → float64, each exact; 0x7F and 0xFF → NaN."""
    return np.asarray(_VALUES[codes], np.float64)


def spacing(x: Float64) -> Float64:
    """Distance between the two codes around |x|: 2^-9 below 2^-5, 32 from 256 on."""
    return GRID.spacing(np.asarray(x, np.float64))
