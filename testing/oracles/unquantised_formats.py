"""Unquantised weights, with activations for which fp32 accumulation is exact."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Tensors
from testing.oracles.bounds import Noise, gamma, no_noise
from testing.oracles.formats import Activations, LinearFormat


class Unquantised(LinearFormat):
    """`weight` bf16, fp16 or fp32 (N, K); weights are six-bit integers times a power of two a row.

    Activations are four-bit integers times a power of two a row, so for K ≤ 2^14 every partial sum
    is an integer below 2^24: any order of fp32 additions gives the exact product.
    """

    quantises_activations = False

    def __init__(self, dtype: str = "bfloat16") -> None:
        self.name = f"unquantised_{dtype}"
        self._dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Six-bit integers times a power of two a row."""
        power = np.exp2(np.rint(np.log2(gain)) - 10 + rng.integers(0, 3, (n, 1)))
        return {"weight": (rng.integers(-63, 64, (n, k)) * power).astype(self._dtype)}

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """The weight itself."""
        return tensors["weight"].astype(np.float64)

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """Four-bit integers times a power of two a row."""
        return rng.integers(-15, 16, (m, k)) * np.exp2(rng.integers(-5, -2, (m, 1)).astype(float))

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """There are none: nothing is quantised."""
        return self.lossless(rng, m, k)

    def encode_activations(self, x: Float64) -> Activations:
        """Nothing is quantised."""
        return Activations(x, np.zeros_like(x), np.zeros(x.shape, dtype=bool))

    def identity_weight(self, k: int) -> Tensors:
        """Ones and zeros."""
        return {"weight": np.eye(k).astype(self._dtype)}

    def snap(self, read: Float64, like: Activations) -> Float64:
        """Every value is a code."""
        return read

    def noise(self, parts: Float64, bias: Float64 | None) -> Noise:
        """None but the addition of the bias: sums are exact."""
        product = parts.sum(axis=0)
        if bias is None:
            return no_noise(product.shape)
        bound = gamma(1) * (np.abs(product) + np.abs(bias))
        return Noise(bound, bound / np.sqrt(3), np.zeros_like(bound))

    def relative_activation_noise(self, x: Float64) -> float:
        """No quantiser, no noise."""
        return 0.0
