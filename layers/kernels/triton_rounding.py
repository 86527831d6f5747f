# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The arithmetic of int8 quantisation in Triton, the same to the bit as torch's."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def magnitude_bits(x):
    """|x| (float32) as int32, in the same order; a NaN is above Inf, so a maximum keeps it."""
    return x.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def scale_of(amax):
    """amax / 127, correctly rounded, and at least the smallest normal float32; keeps NaN."""
    scale = tl.div_rn(amax, tl.full(amax.shape, 127.0, tl.float32))
    return tl.where(scale < 1.1754943508222875e-38, 1.1754943508222875e-38, scale)


@triton.jit
def codes_of(x, scale):
    """Round half to even (x / scale), clamped to ±127, as int8; 0 for NaN."""
    ratio = tl.div_rn(x, scale)
    # 1.5 * 2^23 leaves a float32 no fraction bits: adding it rounds half to even.
    rounded = (ratio + 12582912.0) - 12582912.0
    clamped = tl.minimum(tl.maximum(rounded, -127.0), 127.0)
    return tl.where(ratio == ratio, clamped, 0.0).to(tl.int8)
