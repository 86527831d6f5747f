"""What a kernel multiplies, and the sums over it that errors scale with."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.matmul import blocked_matmul, matmul


@dataclass(frozen=True)
class Product:
    """x·wᵀ + b.

    x: (M, K) float64, as the kernel sees it: dequantised.
    weight: (N, K) float64.
    bias: (N,) float64 or None.
    """

    x: Float64
    weight: Float64
    bias: Float64 | None = None

    @cached_property
    def parts(self) -> Float64:
        """(⌈K/128⌉, M, N): what each K block adds."""
        return blocked_matmul(self.x, self.weight)

    @cached_property
    def without_bias(self) -> Float64:
        """(M, N): x·wᵀ."""
        return np.asarray(self.parts.sum(axis=0))

    @cached_property
    def exact(self) -> Float64:
        """(M, N): x·wᵀ + b."""
        return self.without_bias if self.bias is None else self.without_bias + self.bias

    @cached_property
    def magnitude(self) -> Float64:
        """(M, N): |x·wᵀ| + |b|, at least the size of what scales and bias leave to round."""
        size = np.abs(self.without_bias)
        return size if self.bias is None else size + np.abs(self.bias)

    @cached_property
    def absolute(self) -> Float64:
        """(M, N): Σ|x||w|, which no partial sum exceeds."""
        return matmul(np.abs(self.x), np.abs(self.weight))

    @cached_property
    def euclidean(self) -> Float64:
        """(M, N): √Σ(x·w)², a partial sum's typical size where signs are random."""
        return np.sqrt(matmul(self.x**2, self.weight**2))

    @cached_property
    def terms(self) -> Float64:
        """(M, N): how many products are not zero."""
        return matmul((self.x != 0).astype(float), (self.weight != 0).astype(float))
