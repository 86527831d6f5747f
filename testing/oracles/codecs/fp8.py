"""fp8 weights and activations: e4m3 codes under float32 scales, x̂ = code · s.

Rule: s = fp32(amax/448), rounded to float32 because a checkpoint and a kernel store it so; the
quotient x/s of that stored s is exact (float64) and rounded once, to nearest even, saturating at
±448 (`codecs.e4m3`). A scale below the smallest normal float32 is raised to it, since fp32
arithmetic may flush what lies below. A block of zeros has scale 0 and codes 0.
A NaN or an infinity makes its scale, and so its whole row, group or tile, not finite: codes NaN. A
static scale does not see it: there the element alone becomes NaN (`cvt.rn.satfinite` would make an
infinity ±448; a layer must not turn an overflow into a number).

Sources: DeepSeek-V3 (arXiv:2412.19437, section 3.3: 1x128 and 128x128 scales of amax/448), and the
checkpoints of compressed-tensors and vLLM's fp8 for tensor and channel scales.
"""

import numpy as np

from testing.oracles.arrays import Float32, Float64
from testing.oracles.codecs import e4m3
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.quantised import Quantised, element_near_ties

SMALLEST_SCALE = np.float32(2.0**-126)
BLOCK = (128, 128)


def scale_of(amax: Float64) -> Float32:
    """fp32(amax/448), at least 2^-126 unless amax is 0; any shape."""
    amax = np.asarray(amax, np.float64)
    with np.errstate(over="ignore"):
        scale = np.asarray(amax / e4m3.MAX).astype(np.float32)
    return np.where(amax == 0, np.float32(0), np.maximum(scale, SMALLEST_SCALE))


def quantise_tensor(x: Float64, scale: float) -> Codes:
    """x (M, K), a static scale → codes (M, K).

    Raises ValueError unless the scale is positive and finite.
    """
    if not (scale > 0 and np.isfinite(scale)):
        raise ValueError(f"input scale {scale}, wanted a positive finite number")
    return _codes(_quotient(x, np.asarray(scale)))


def quantise_tokens(x: Float64) -> tuple[Codes, Float32]:
    """x (M, K) → codes (M, K), scale (M, 1) fp32: dynamic, one scale a token."""
    scale = scale_of(np.max(np.abs(x), axis=1, keepdims=True))
    return _codes(_quotient(x, scale)), scale


def quantise_groups(x: Float64, group: int = 128) -> tuple[Codes, Float32]:
    """x (M, K) → codes (M, K), scale (M, ⌈K/group⌉) fp32; a last group may be partial."""
    return _quantise_blocks(x, (1, group))


def quantise_weight_tensor(w: Float64) -> tuple[Codes, Float32]:
    """w (N, K) → codes (N, K), 0-dim scale fp32."""
    scale = scale_of(np.max(np.abs(w)))
    return _codes(_quotient(w, scale)), scale


def quantise_weight_channel(w: Float64) -> tuple[Codes, Float32]:
    """w (N, K) → codes (N, K), scale (N, 1) fp32."""
    return quantise_tokens(w)


def quantise_weight_block(w: Float64, block: tuple[int, int] = BLOCK) -> tuple[Codes, Float32]:
    """w (N, K) → codes (N, K), scale (⌈N/bn⌉, ⌈K/bk⌉) fp32; edge blocks may be partial."""
    return _quantise_blocks(w, block)


def dequantise_tensor(codes: Codes, scale: float | Float32) -> Float64:
    """codes (M, K), a scale of one element → (M, K) float64."""
    return e4m3.decode(codes) * np.asarray(scale, np.float64).reshape(())


def dequantise_channel(codes: Codes, scale: Float32) -> Float64:
    """codes (N, K), scale (N, 1) → (N, K) float64; of tokens likewise."""
    if scale.shape != (codes.shape[0], 1):
        raise ValueError(f"channel scale {scale.shape}, wanted ({codes.shape[0]}, 1)")
    return _times(e4m3.decode(codes), scale.astype(np.float64))


def dequantise_block(codes: Codes, scale: Float32, block: tuple[int, int] = BLOCK) -> Float64:
    """codes (N, K), scale (⌈N/bn⌉, ⌈K/bk⌉), multiplied → (N, K) float64."""
    return _times(e4m3.decode(codes), spread(scale, codes.shape, block))


def dequantise_groups(codes: Codes, scale: Float32, group: int = 128) -> Float64:
    """codes (M, K), scale (M, ⌈K/group⌉) → (M, K) float64."""
    return dequantise_block(codes, scale, (1, group))


def quantise_tensor_detail(x: Float64, scale: float) -> Quantised:
    """What `quantise_tensor` leaves of x (M, K), with steps and near ties."""
    return _detail(x, quantise_tensor(x, scale), np.full(x.shape, float(scale)))


def quantise_tokens_detail(x: Float64) -> Quantised:
    """What `quantise_tokens` leaves of x (M, K), with steps and near ties."""
    codes, scale = quantise_tokens(x)
    return _detail(x, codes, np.broadcast_to(scale.astype(np.float64), x.shape))


def quantise_groups_detail(x: Float64, group: int = 128) -> Quantised:
    """What `quantise_groups` leaves of x (M, K), with steps and near ties."""
    codes, scale = quantise_groups(x, group)
    return _detail(x, codes, spread(scale, x.shape, (1, group)))


def spread(scale: Float32, shape: tuple[int, ...], block: tuple[int, int]) -> Float64:
    """Block scales repeated to one an element: (⌈N/bn⌉, ⌈K/bk⌉) → (N, K) float64.

    Raises ValueError at a scale of another shape.
    """
    wanted = (-(-shape[0] // block[0]), -(-shape[1] // block[1]))
    if scale.shape != wanted:
        raise ValueError(f"block scale {scale.shape}, wanted {wanted} for codes {shape}")
    wide = np.repeat(np.repeat(scale.astype(np.float64), block[0], axis=0), block[1], axis=1)
    return wide[: shape[0], : shape[1]]


def _quantise_blocks(x: Float64, block: tuple[int, int]) -> tuple[Codes, Float32]:
    rows, columns = (np.arange(0, size, step) for size, step in zip(x.shape, block, strict=True))
    amax = np.maximum.reduceat(np.maximum.reduceat(np.abs(x), rows, axis=0), columns, axis=1)
    scale = scale_of(amax)
    return _codes(_quotient(x, spread(scale, x.shape, block))), scale


def _quotient(x: Float64, scale: Float64 | Float32) -> Float64:
    """x/s; 0 where s is 0; NaN where x or s is not finite."""
    x, scale = np.asarray(x, np.float64), np.asarray(scale, np.float64)
    quotient = x / np.where((scale == 0) | ~np.isfinite(scale), 1.0, scale) * (scale != 0)
    return np.where(np.isfinite(x) & np.isfinite(scale), quotient, np.nan)


def _codes(quotient: Float64) -> Codes:
    return e4m3.encode(quotient)


def _times(values: Float64, scale: Float64) -> Float64:
    # A NaN code under an infinite scale is NaN, and warns of nothing.
    with np.errstate(invalid="ignore"):
        return values * scale


def _detail(x: Float64, codes: Codes, scale: Float64) -> Quantised:
    quotient = _quotient(x, scale)
    finite = np.isfinite(quotient)
    step = np.where(finite, e4m3.spacing(quotient), 0.0) * np.where(np.isfinite(scale), scale, 0.0)
    ties = element_near_ties(e4m3.GRID, quotient)
    return Quantised(_times(e4m3.decode(codes), scale), step, ties, np.zeros(x.shape, np.bool_))
