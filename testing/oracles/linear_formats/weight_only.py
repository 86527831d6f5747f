"""Layers of 4-bit weights whose x is multiplied as it comes."""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.formats import Unchanged


class ShortOperands(Unchanged):
    """x is bf16 or fp16, and the weight is widened to it.

    A code of e2m1 has two significant bits and a block scale of e4m3 four: their product has at
    most six, 0.5·2^-9 to 6·448, which bf16 (eight bits) and fp16 (eleven, from 2^-24 on) hold
    exactly. With E8M0 scales bf16 holds the product exactly from 2^-133 on. So a right kernel
    multiplies the checkpoint's weight itself, by tensor cores of either type, and loses nothing
    before the sum.
    """

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """Eight-bit integers times a power of two a row: every bit of bf16 is in use."""
        values = rng.integers(-255, 256, (m, k)).astype(np.float64)
        return values * np.exp2(rng.integers(-9, -6, (m, 1)).astype(float))
