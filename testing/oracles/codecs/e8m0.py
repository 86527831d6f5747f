"""E8M0: a power of two as a scale, OCP Microscaling Formats 1.0, section 5.4.1, and its rules.

2^(b - 127) for b in 0..254, 255 is NaN; no zero, no infinity, no sign. Three rules make a scale
from a block's largest magnitude, and a method declares one:

- floor: 2^(⌊log2 amax⌋ - emax), emax the exponent of the element's maximum (8 for e4m3, 2 for
  e2m1): section 6.3 of that document; elements may saturate.
- ceil: the smallest power of two with amax/scale ≤ maximum (448 or 6): nothing saturates. NVIDIA's
  rule for MXFP8 (cuDNN and Transformer Engine: amax/maximum rounded up to E8M0).
- even: amax is first rounded to the element's significand bits, which may carry into the exponent,
  then floor. Fewer elements saturate. torchao's EVEN.

All are exact: exponents come from the number's own bits, never from a logarithm. A block of zeros
gets the smallest scale, 2^-127; a scale beyond either end is the end; an infinite or NaN amax gives
255, so that an overflow upstream is seen.
"""

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64
from testing.oracles.codecs.grid import Codes

BIAS = 127
NAN = 255


def decode(codes: Codes) -> Float64:
    """codes uint8 → 2^(code - 127) float64; 255 → NaN."""
    value = np.ldexp(1.0, np.asarray(codes, np.int64) - BIAS)
    return np.where(np.asarray(codes) == NAN, np.nan, value)


def floor_scale(amax: Float64, emax: int) -> Codes:
    """amax ≥ 0 of any shape → 2^(⌊log2 amax⌋ - emax)."""
    return _code(amax, _floor_log2(amax) - emax)


def ceil_scale(amax: Float64, maximum: float) -> Codes:
    """amax ≥ 0 of any shape → the smallest 2^e with amax ≤ maximum·2^e.

    With a power of two as `maximum` (the exponent's ceiling alone) it is torchao's CEIL.
    """
    amax = np.asarray(amax, np.float64)
    exponent = _floor_log2(amax / maximum)
    # The quotient may be rounded; the comparison is exact.
    exponent = np.where(np.ldexp(maximum, exponent) >= amax, exponent, exponent + 1)
    return _code(amax, exponent)


def even_scale(amax: Float64, emax: int, mantissa_bits: int) -> Codes:
    """amax ≥ 0 → floor rule of amax rounded to 1 + mantissa_bits significand bits (3 or 1).

    A carry is all that matters, and an amax halfway to the carry has an odd last bit: half to even
    and half up agree.
    """
    amax = np.asarray(amax, np.float64)
    significand, exponent = np.frexp(np.where(np.isfinite(amax), amax, 0.0))
    rounded = np.rint(np.ldexp(significand, mantissa_bits + 1))
    carried = np.ldexp(rounded, exponent - (mantissa_bits + 1))
    return _code(amax, _floor_log2(carried) - emax)


def _floor_log2(x: Float64) -> NDArray[np.int64]:
    """Exponent of x; far below every scale where x is 0 or not finite."""
    known = np.isfinite(x) & (x > 0)
    exponent = np.frexp(np.where(known, x, 1.0))[1].astype(np.int64) - 1
    return np.where(known, exponent, -1000)


def _code(amax: Float64, exponent: NDArray[np.int64]) -> Codes:
    code = np.clip(exponent + BIAS, 0, NAN - 1)
    return np.where(np.isfinite(amax), code, NAN).astype(np.uint8)
