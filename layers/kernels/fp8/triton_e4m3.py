# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The arithmetic of e4m3 quantisation in Triton, the same to the bit as torch's."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def e4m3_scale(amax):
    """amax / 448, correctly rounded, and at least the smallest normal float32; keeps NaN."""
    scale = tl.div_rn(amax, tl.full(amax.shape, 448.0, tl.float32))
    return tl.where(scale < 1.1754943508222875e-38, 1.1754943508222875e-38, scale)


@triton.jit
def e4m3_codes(quotient):
    """float32 -> e4m3: half to even, saturating at ±448; NaN stays NaN."""
    clamped = tl.minimum(tl.maximum(quotient, -448.0), 448.0)
    return tl.where(quotient == quotient, clamped, quotient).to(tl.float8e4nv)
