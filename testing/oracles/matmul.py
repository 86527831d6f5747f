"""The reference product x·wᵀ in float64, also split by blocks of the reduced dimension."""

import numpy as np

from testing.oracles.arrays import Float64


def matmul(x: Float64, w: Float64, bias: Float64 | None = None) -> Float64:
    """x (M, K), w (N, K) as checkpoints store it, bias (N,) → (M, N) float64."""
    product = np.asarray(x, np.float64) @ np.asarray(w, np.float64).T
    return product if bias is None else product + bias


def blocked_matmul(x: Float64, w: Float64, width: int = 128) -> Float64:
    """x (M, K), w (N, K) → (⌈K/width⌉, M, N): what each K block adds to the product."""
    starts = range(0, x.shape[1], width)
    return np.stack([matmul(x[:, k : k + width], w[:, k : k + width]) for k in starts])
