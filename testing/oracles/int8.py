"""int8 weights and activations from the definition: symmetric, s = amax/127, half to even, ±127.

Codes are int8 and x̂ = code · s. The scale s = fp32(amax/127) is a float32 value; the quotient
x/s is formed in float64 and rounded half to even, then clamped to ±127 (-128 is never produced).
A scale below the smallest normal float32 is raised to it, since fp32 arithmetic may flush what lies
below. A row or group of zeros has scale 0 and codes 0.
"""

import numpy as np

from testing.oracles.arrays import Float32, Float64, Int8, Mask

MAX_CODE = 127
SMALLEST_SCALE = np.float32(2.0**-126)


def scale_of(amax: Float64) -> Float32:
    """fp32(amax/127), at least 2^-126 unless amax is 0; any shape."""
    scale = np.asarray(np.asarray(amax, np.float64) / MAX_CODE).astype(np.float32)
    return np.where(np.asarray(amax) == 0, scale, np.maximum(scale, SMALLEST_SCALE))


def codes_of(x: Float64, scale: Float64) -> Int8:
    """Codes of `x` under `scale` (broadcast against x); 0 where the scale is 0."""
    quotient = _quotient(x, scale)
    return np.clip(np.rint(quotient), -MAX_CODE, MAX_CODE).astype(np.int8)


def near_ties(x: Float64, scale: Float64) -> Mask:
    """Where x/s lies so near a half that fp32 arithmetic may round it either way.

    A kernel forms s and x/s (or x·(1/s), x·(127/amax)) in fp32: at most four roundings of 2^-24
    each, so a quotient within |q|·2^-22 of a half has two right codes.
    """
    quotient = np.abs(_quotient(x, scale))
    distance = np.abs(quotient - np.floor(quotient) - 0.5)
    return distance <= quotient * 2.0**-22


def encode_channel(w: Float64) -> tuple[Int8, Float32]:
    """w (N, K) → codes (N, K) int8, scale (N, 1) fp32: one scale an output channel."""
    scale = scale_of(np.max(np.abs(w), axis=1, keepdims=True))
    return codes_of(w, scale.astype(np.float64)), scale


def decode_channel(codes: Int8, scale: Float32) -> Float64:
    """codes (N, K), scale (N, 1) → (N, K) float64."""
    if scale.shape != (codes.shape[0], 1):
        raise ValueError(f"channel scale {scale.shape}, wanted ({codes.shape[0]}, 1)")
    return codes.astype(np.float64) * scale.astype(np.float64)


def encode_block(w: Float64, block: tuple[int, int] = (128, 128)) -> tuple[Int8, Float32]:
    """w (N, K) → codes (N, K) int8, scale (⌈N/bn⌉, ⌈K/bk⌉) fp32; edge blocks may be partial."""
    rows, columns = w.shape
    starts_n, starts_k = range(0, rows, block[0]), range(0, columns, block[1])
    amax = np.array(
        [
            [np.max(np.abs(w[n : n + block[0], k : k + block[1]])) for k in starts_k]
            for n in starts_n
        ]
    )
    scale = scale_of(amax)
    return codes_of(w, spread_blocks(scale, w.shape, block)), scale


def decode_block(codes: Int8, scale: Float32, block: tuple[int, int] = (128, 128)) -> Float64:
    """codes (N, K), scale (⌈N/bn⌉, ⌈K/bk⌉) multiplied → (N, K) float64."""
    return codes.astype(np.float64) * spread_blocks(scale, codes.shape, block)


def spread_blocks(scale: Float32, shape: tuple[int, ...], block: tuple[int, int]) -> Float64:
    """Block scales repeated to one an element: (⌈N/bn⌉, ⌈K/bk⌉) → (N, K) float64."""
    wanted = (-(-shape[0] // block[0]), -(-shape[1] // block[1]))
    if scale.shape != wanted:
        raise ValueError(f"block scale {scale.shape}, wanted {wanted} for weight {shape}")
    wide = np.repeat(np.repeat(scale.astype(np.float64), block[0], axis=0), block[1], axis=1)
    return wide[: shape[0], : shape[1]]


def encode_tokens(x: Float64) -> tuple[Int8, Float32]:
    """x (M, K) → codes (M, K) int8, scale (M, 1) fp32: dynamic, one scale a token."""
    return encode_channel(x)


def encode_token_groups(x: Float64, group: int = 128) -> tuple[Int8, Float32]:
    """x (M, K) → codes (M, K) int8, scale (M, ⌈K/group⌉) fp32; a last group may be partial."""
    return encode_block(x, (1, group))


def _quotient(x: Float64, scale: Float64) -> Float64:
    scale = np.asarray(scale, np.float64)
    return np.asarray(x, np.float64) / np.where(scale == 0, np.inf, scale)
