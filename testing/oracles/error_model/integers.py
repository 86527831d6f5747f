"""Sums of integer products, exact in int32, that are scaled in fp32."""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.error_model.noise import Noise, gamma


def scaled_integer_noise(product: Float64, bias: Float64 | None) -> Noise:
    """Exact integer sum, then int32→fp32, activation scale, weight scale, bias in fp32.

    Six roundings: one for the conversion, two for forming the activation scale (amax·fp32(1/127)
    rounds twice), two for the products with the scales, one for the sum with the bias.
    """
    size = np.abs(product) + (0.0 if bias is None else np.abs(bias))
    bound = gamma(6) * size
    return Noise(bound, bound / np.sqrt(3), gamma(3) * size)


def scaled_block_noise(parts: Float64, bias: Float64 | None) -> Noise:
    """As `scaled_integer_noise` for each K block; the blocks are then added in fp32.

    parts: (B, M, N) what each K block adds. The order of the B additions is free: each partial sum
    is at most Σ|parts|.
    """
    size = np.abs(parts).sum(axis=0) + (0.0 if bias is None else np.abs(bias))
    bound = gamma(6 + len(parts)) * size
    return Noise(bound, bound / np.sqrt(3), gamma(3) * np.abs(parts.sum(axis=0)))
