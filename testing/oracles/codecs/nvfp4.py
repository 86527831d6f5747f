"""NVFP4: e2m1 codes under an e4m3 scale a block of 16 and a float32 scale a tensor.

x̂ = code · block_scale · global_scale. `global_scale` is the decoding one, as a checkpoint of
modelopt holds it: `weight_scale_2`, or `input_scale` of activations, fp32(amax/(448·6)); a kernel's
gs is its reciprocal.

Rule, with the stored float32 `global_scale` g:

- block scale sf = e4m3(amax/(6·g)), the quotient exact (float64; 6·g is exact there), rounded once
  to nearest even, saturating at 448;
- code = e2m1(x/(sf·g)), the quotient exact (sf·g is exact in float64), rounded once to nearest
  even, saturating at ±6; code 0 where sf = 0.

A NaN or an infinity makes sf NaN (0x7F), and so its whole block. Kernels differ there: FlashInfer's
takes amax by a maximum that drops NaN, and saturates.

Sources: NVIDIA modelopt's NVFP4 checkpoints (`NVFP4QTensor`); NVIDIA, "Introducing NVFP4 for
efficient and accurate low-precision inference" (2025); PTX ISA, `cvt.rn.satfinite.e2m1x2.f32`.
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float32, Float64, Mask
from testing.oracles.codecs import e2m1, e4m3
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.quantised import (
    WINDOW,
    Quantised,
    element_near_ties,
    with_other_scale,
)

BLOCK = 16


@dataclass(frozen=True)
class Nvfp4:
    """A matrix in NVFP4, block scales row-major.

    packed: (M, K/2) uint8, two e2m1 codes a byte, the even k in the low nibble.
    block_scale: (M, K/16) uint8, e4m3 bytes.
    global_scale: 0-dim float32 of decoding: `weight_scale_2` or `input_scale`.
    """

    packed: Codes
    block_scale: Codes
    global_scale: Float32


def global_scale_of(x: Float64) -> Float32:
    """0-dim fp32(amax/(448·6)): the largest block scale is then 448. 1 for a tensor of zeros."""
    amax = float(np.max(np.abs(x)))
    return np.asarray(amax / (e4m3.MAX * e2m1.MAX) if amax else 1.0).astype(np.float32)


def quantise(x: Float64, global_scale: float | Float32) -> Nvfp4:
    """x (M, K) → NVFP4 under that decoding scale.

    Raises ValueError if K % 16, or unless the scale is one positive finite float32.
    """
    scale = _checked(x, global_scale)
    block_scale = e4m3.encode(_wanted_block_scale(x, scale))
    codes = e2m1.encode(_quotient(x, block_scale, scale))
    # An element of a NaN block has no meaning: 0, as well as any.
    codes = np.where(_spread(np.isnan(e4m3.decode(block_scale))), 0, codes)
    return Nvfp4(e2m1.pack(codes.astype(np.uint8)), block_scale, np.asarray(scale, np.float32))


def dequantise(quantised: Nvfp4) -> Float64:
    """(M, K) float64; products of three are exact there.

    Raises ValueError if block scales and codes do not belong together.
    """
    codes = e2m1.unpack(quantised.packed)
    wanted = (codes.shape[0], codes.shape[1] // BLOCK)
    if quantised.block_scale.shape != wanted:
        raise ValueError(
            f"block scales {quantised.block_scale.shape}, wanted {wanted} for {codes.shape} codes; "
            "a swizzled buffer goes through codecs.swizzle.unswizzle first"
        )
    scale = e4m3.decode(quantised.block_scale) * float(quantised.global_scale)
    return e2m1.decode(codes) * _spread(scale)


def quantise_detail(x: Float64, global_scale: float | Float32) -> Quantised:
    """What `quantise` leaves of x (M, K), with steps and near ties of elements and block scales."""
    scale = _checked(x, global_scale)
    wanted = _wanted_block_scale(x, scale)
    block_scale = e4m3.encode(wanted)
    one = _under(x, block_scale, scale)
    tied = e4m3.GRID.near_tie(wanted, WINDOW)
    if not tied.any():
        return one
    return with_other_scale(one, _under(x, _neighbour(wanted, tied), scale), _spread(tied) > 0)


def block_scale_near_ties(x: Float64, global_scale: float | Float32) -> Mask:
    """(M, K/16) bool: the blocks of x (M, K) for which two e4m3 scales are right."""
    return e4m3.GRID.near_tie(_wanted_block_scale(x, _checked(x, global_scale)), WINDOW)


def other_block_scale(x: Float64, global_scale: float | Float32) -> Codes:
    """(M, K/16) e4m3 bytes: of blocks with two right scales the other, else that of `quantise`."""
    wanted = _wanted_block_scale(x, _checked(x, global_scale))
    return _neighbour(wanted, e4m3.GRID.near_tie(wanted, WINDOW))


def quantise_under(
    x: Float64, block_scale: Codes, global_scale: float | Float32
) -> tuple[Codes, Mask]:
    """Codes (M, K) 0..15 of x under given block scales (M, K/16), and where they have near ties."""
    quotient = _quotient(x, block_scale, _checked(x, global_scale))
    return e2m1.encode(quotient), element_near_ties(e2m1.GRID, quotient)


def _checked(x: Float64, global_scale: float | Float32) -> float:
    if x.shape[-1] % BLOCK:
        raise ValueError(f"K = {x.shape[-1]}, wanted a multiple of {BLOCK}: pad with zeros")
    scale = np.asarray(global_scale)
    if scale.size != 1 or not (scale > 0).all() or not np.isfinite(scale).all():
        raise ValueError(f"global scale {global_scale}, wanted one positive finite number")
    return float(np.float32(scale.reshape(())))


def _wanted_block_scale(x: Float64, scale: float) -> Float64:
    blocks = np.abs(np.asarray(x, np.float64)).reshape(x.shape[0], -1, BLOCK)
    wanted = blocks.max(axis=2) / (e2m1.MAX * scale)
    return np.where(np.isfinite(wanted), wanted, np.nan)


def _spread(block_values: Float64 | Mask) -> Float64:
    return np.repeat(np.asarray(block_values, np.float64), BLOCK, axis=1)


def _quotient(x: Float64, block_scale: Codes, scale: float) -> Float64:
    """x/(sf·g), 0 where sf is 0, NaN where it is NaN."""
    divisor = _spread(e4m3.decode(block_scale) * scale)
    with np.errstate(invalid="ignore"):
        return np.asarray(x, np.float64) / np.where(divisor == 0, np.inf, divisor)


def _under(x: Float64, block_scale: Codes, scale: float) -> Quantised:
    quotient = _quotient(x, block_scale, scale)
    unit = _spread(e4m3.decode(block_scale) * scale)
    values = e2m1.decode(e2m1.encode(quotient)) * unit
    step = np.where(np.isnan(unit), 0.0, e2m1.spacing(quotient) * unit)
    ties = element_near_ties(e2m1.GRID, quotient)
    return Quantised(values, step, ties, np.zeros(x.shape, np.bool_))


def _neighbour(wanted: Float64, tied: Mask) -> Codes:
    """The other of the two e4m3 codes around `wanted` where `tied`, else the nearest."""
    nearest = e4m3.encode(wanted).astype(np.int64)
    up = np.where(e4m3.decode(e4m3.encode(wanted)) < wanted, 1, -1)
    return np.where(tied, nearest + up, nearest).astype(np.uint8)
