# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""E2M1 codes, block scales and their order in Triton, the same to the bit as in torch.

Everything is integer or exact arithmetic, so it needs no GPU's own FP8 or FP4 conversions.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def swizzled_offset(row, column, columns):
    """Byte of (row, column) in scales of `columns` columns; see `layers.kernels.fp4.swizzle`."""
    tile = row // 128 * tl.cdiv(columns, 4) + column // 4
    return tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4


@triton.jit
def decode_e2m1(codes):
    """Codes uint8 -> float32, through the bits of a float16 that is 14 powers of two too small."""
    wide = codes.to(tl.uint16)
    bits = ((wide & 7) << 9) | ((wide & 8) << 12)
    return bits.to(tl.float16, bitcast=True).to(tl.float32) * 16384.0


@triton.jit
def decode_pairs(packed, OPERAND: tl.constexpr):
    """Bytes uint8 (N, K / 2) -> (N, K) float16, bfloat16 or float32.

    Sixteen bits at a time, which is half the work of `decode_e2m1`: magnitude and sign are put
    where the operand's type keeps them, as a subnormal or nearly so, and then scaled up.
    """
    wide = packed.to(tl.uint16)
    if OPERAND == tl.bfloat16:  # noqa: SIM300 neither side is a constant
        low = ((wide & 0x07) << 6) | ((wide & 0x08) << 12)
        high = ((wide & 0x70) << 2) | ((wide & 0x80) << 8)
        return tl.interleave(low, high).to(tl.bfloat16, bitcast=True) * 8.507059173023462e37
    else:
        low = ((wide & 0x07) << 9) | ((wide & 0x08) << 12)
        high = ((wide & 0x70) << 5) | ((wide & 0x80) << 8)
        values = tl.interleave(low, high).to(tl.float16, bitcast=True) * 16384.0
        return values.to(OPERAND)


@triton.jit
def encode_e2m1(x):
    """float32 -> codes uint8: half to even, saturating; NaN gives ±6."""
    a = tl.abs(x)
    # Counting down keeps NaN, which is below nothing, at the top, as torch has it.
    below = (a <= 0.25).to(tl.int32) + (a < 0.75).to(tl.int32) + (a <= 1.25).to(tl.int32)
    below += (a < 1.75).to(tl.int32) + (a <= 2.5).to(tl.int32) + (a < 3.5).to(tl.int32)
    below += (a <= 5.0).to(tl.int32)
    sign = (x.to(tl.uint32, bitcast=True) >> 31).to(tl.int32)
    return ((7 - below) | (sign << 3)).to(tl.uint8)


@triton.jit
def decode_scale(scale, E8M0: tl.constexpr):
    """Scale bytes uint8 -> float32, NaN kept: E8M0, or E4M3 without its sign."""
    if E8M0:
        bits = scale.to(tl.uint32) << 23
        bits = tl.where(scale == 0, 0x00400000, bits)
        bits = tl.where(scale == 255, 0x7FC00000, bits).to(tl.uint32)
        return bits.to(tl.float32, bitcast=True)
    else:
        # As a float16 it is eight powers too small.
        bits = (scale.to(tl.uint16) & 0x7F) << 7
        value = bits.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
        return tl.where((scale & 0x7F) == 0x7F, float("nan"), value)


@triton.jit
def encode_e4m3(x):
    """float32, not negative -> E4M3 bytes uint8: half to even, saturating; NaN gives 0x7F."""
    clamped = tl.minimum(x, 448.0)
    bits = clamped.to(tl.uint32, bitcast=True)
    # Half to even on the 20 bits that E4M3 has fewer; then its exponent bias, 7 in place of 127.
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20).to(tl.int32) - (120 << 3)
    # Below 2^-6 codes count steps of 2^-9. Adding 1.5 * 2^23 rounds half to even.
    steps = ((clamped * 512.0 + 12582912.0) - 12582912.0).to(tl.int32)
    code = tl.where(clamped < 0.015625, steps, normal)
    return tl.where(x == x, code, 0x7F).to(tl.uint8)
