"""Data to encode, as values that bf16 or fp16 hold."""

from __future__ import annotations

import numpy as np
import torch

from testing.oracles.arrays import Float64

# (M, K): the field's shapes, K that is no multiple of 64, rows that are no multiple of 128.
ALIGNED = [(64, 512), (128, 1024), (5, 896), (5, 768)]
UNALIGNED = [(5, 336), (129, 1040), (7, 1056), (3, 48), (1, 16), (300, 80)]


def normal(m: int, k: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Normal data, rows of different sizes, a row of zeros and a block of zeros.

    The largest magnitude is 7·2^n, so that block scales often lie near ties.
    """
    rng = np.random.default_rng(1000 * m + k)
    x = rng.standard_normal((m, k)) * 2.0 ** rng.uniform(-4, 4, (m, 1))
    if m > 2:
        x[1] = 0
        x[2, :16] = 0
    x[0, 0] = 7 * 2.0 ** np.ceil(np.log2(np.abs(x).max() / 7))
    return torch.from_numpy(x).to(dtype)


def exactly(x: torch.Tensor) -> Float64:
    """The tensor's values, (M, K) float64."""
    return x.detach().to(torch.float64).cpu().numpy()
