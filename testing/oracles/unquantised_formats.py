"""Unquantised weights, with activations for which fp32 accumulation is exact."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Tensors
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.noise import Noise, gamma, no_noise
from testing.oracles.error_model.product import Product
from testing.oracles.formats import ActivationRule, LinearFormat, Unchanged


class Unquantised(LinearFormat):
    """`weight` bf16, fp16 or fp32 (N, K); weights are six-bit integers times a power of two a row.

    Activations are four-bit integers times a power of two a row, so for K ≤ 2^14 every partial sum
    is an integer below 2^24: any order of fp32 additions gives the exact product.
    """

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

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """None is quantised."""
        return Unchanged()

    def identity_weight(self, k: int) -> Tensors:
        """Ones and zeros."""
        return {"weight": np.eye(k).astype(self._dtype)}

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """None but the addition of the bias: sums are exact."""
        if product.bias is None:
            return no_noise(product.without_bias.shape)
        bound = gamma(1) * product.magnitude
        return Noise(bound, bound / np.sqrt(3), np.zeros_like(bound))
