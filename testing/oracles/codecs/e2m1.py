"""E2M1: 4-bit floating point, OCP Microscaling Formats 1.0, section 5.3.3, and its packing.

Sign, two exponent bits of bias 1, one significand bit: ±{0, 0.5, 1, 1.5, 2, 3, 4, 6}; no infinity
and no NaN.

Rounding: to nearest, ties to even, in one step from float64; saturating, as PTX
`cvt.rn.satfinite.e2m1x2.f32` does: what is larger than 6, and infinity, becomes ±6. The sign of
zero and of what underflows is kept (code 8 is -0). NaN has no code; that instruction makes it +6.
A quantiser has to say NaN in the scale.
"""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.codecs.grid import Codes, Grid

MAX = 6.0
GRID = Grid(np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]))
_SIGN = 8
_VALUES = np.concatenate([GRID.magnitudes, -GRID.magnitudes])


def encode(x: Float64) -> Codes:
    """x of any shape → codes 0..15 uint8: nearest, ties to even, saturating at ±6, NaN → 7 (+6)."""
    x = np.asarray(x, np.float64)
    nan = np.isnan(x)
    code = GRID.nearest(np.where(nan, MAX, x))
    return (code | np.where(np.signbit(x) & ~nan, _SIGN, 0)).astype(np.uint8)


def decode(codes: Codes) -> Float64:
    """codes 0..15 of any shape → float64, each exact.

    Raises ValueError at a code above 15: packed bytes go through `unpack` first.
    """
    if np.any(codes > 15):
        raise ValueError(
            f"e2m1 code {int(np.max(codes))}, wanted 0 to 15: unpack bytes that hold two codes"
        )
    return np.asarray(_VALUES[codes], np.float64)


def spacing(x: Float64) -> Float64:
    """Distance between the two codes around |x|: 0.5 below 2, 1 below 4, 2 from 4 on."""
    return GRID.spacing(np.asarray(x, np.float64))


def pack(codes: Codes) -> Codes:
    """codes (…, K) 0..15 → bytes (…, K/2): the even k in the low nibble.

    Raises ValueError if K is odd.
    """
    if codes.shape[-1] % 2:
        raise ValueError(f"{codes.shape[-1]} e2m1 codes in a row, wanted an even number: pad K")
    return (codes[..., 0::2] | (codes[..., 1::2] << 4)).astype(np.uint8)


def unpack(packed: Codes) -> Codes:
    """bytes (…, K/2) → codes (…, K) 0..15: the low nibble first."""
    both = np.stack([packed & 0x0F, packed >> 4], axis=-1)
    return both.reshape(*packed.shape[:-1], 2 * packed.shape[-1])
