"""A tensor core in float64, step by step: what its model is tested with."""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.error_model.accumulators import Accumulator


def _cut(x: Float64, exponent: Float64, bits: int) -> Float64:
    grid = np.ldexp(1.0, exponent - bits + 1)
    return np.trunc(x / grid) * grid


def tensor_core(x: Float64, w: Float64, accumulator: Accumulator) -> Float64:
    """x (M, K) · w (N, K)ᵀ as the instruction is described; sums of spans are added exactly."""
    total, partial = np.zeros((2, len(x), len(w)))
    for start in range(0, x.shape[1], accumulator.at_once):
        chunk = slice(start, start + accumulator.at_once)
        products = x[:, None, chunk] * w[None, :, chunk]
        addends = np.concatenate([partial[..., None], products], axis=2)
        exponent = np.frexp(np.abs(addends).max(axis=2))[1] - 1
        partial = _cut(addends, exponent[..., None], accumulator.bits).sum(axis=2)
        partial = _cut(partial, np.frexp(partial)[1] - 1, accumulator.stored)
        if accumulator.promotion and chunk.stop % accumulator.promotion == 0:
            total, partial = total + partial, np.zeros_like(partial)
    return total + partial
