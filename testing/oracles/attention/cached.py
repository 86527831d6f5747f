"""What an fp8 KV cache holds: e4m3 codes under one float32 scale for all keys, one for all values.

code = e4m3(x / scale), half to even, saturating at ±448; value = code·scale.
"""

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.codecs import e4m3
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.quantised import element_near_ties
from testing.oracles.rounding import FloatType, ulp


def encode(x: Float64, scale: float) -> Codes:
    """x of any shape → codes uint8."""
    return e4m3.encode(x / np.float64(np.float32(scale)))


def decode(codes: Codes, scale: float) -> Float64:
    """codes of any shape → values float64; the NaN codes give NaN."""
    return np.asarray(e4m3.decode(codes) * np.float64(np.float32(scale)))


def near_ties(x: Float64, scale: float) -> Mask:
    """Where float32 arithmetic may send x / scale to either of two codes."""
    return element_near_ties(e4m3.GRID, x / np.float64(np.float32(scale)))


def settled(x: Float64, scale: float, kind: FloatType) -> Float64:
    """`x`, with what lies near a tie moved on by an ulp of `kind`: one code is right for each."""
    for _ in range(4):
        doubtful = near_ties(x, scale)
        if not doubtful.any():
            return x
        x = np.where(doubtful, x + np.copysign(ulp(x, kind), x), x)
    raise ValueError(f"x stays near ties of e4m3 under the scale {scale}: choose another scale")
