"""A layer's case and checkpoint, and what a right layer makes of x, whoever shares the work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testing.harness.linear import LinearCase
from testing.harness.tensors import KINDS
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.noise import (
    Noise,
    float64_noise,
    no_noise,
    rounding_noise,
    subnormal_noise,
)
from testing.oracles.error_model.product import Product
from testing.oracles.formats import Activations
from testing.oracles.matmul import matmul
from testing.oracles.rounding import FloatType, ulp
from testing.oracles.statistics import Comparison


@dataclass(frozen=True)
class Subject:
    """What a layer should hold.

    ranks: how many share the columns of x, as in a row-parallel layer. Each then quantises its own
        part, and rounds its partial sum to the output's type before the sum.
    accumulator: how the kernel under test adds products up.
    """

    case: LinearCase
    checkpoint: LinearCheckpoint
    ranks: int = 1
    accumulator: Accumulator = FP32

    @property
    def kind(self) -> FloatType:
        """The float type of inputs and outputs."""
        return KINDS[self.case.dtype]

    @property
    def quantises(self) -> bool:
        """Whether x is quantised at all."""
        return self.checkpoint.activations.quantises

    def lossless(self, rng: np.random.Generator) -> Float64:
        """(M, K) activations whose codes are beyond doubt on every rank."""
        rule, width = self.checkpoint.activations, self.case.k // self.ranks
        return _beside([rule.lossless(rng, self.case.m, width) for _ in range(self.ranks)])

    def ties(self, rng: np.random.Generator) -> Float64 | None:
        """(M, K) activations halfway between two codes, if there are any."""
        rule, width = self.checkpoint.activations, self.case.k // self.ranks
        parts = [rule.ties(rng, self.case.m, width) for _ in range(self.ranks)]
        found = [part for part in parts if part is not None]
        return _beside(found) if found else None

    def one_hot(self) -> Float64:
        """(K, K) v·I, v a code that is beyond doubt."""
        return self.checkpoint.activations.one_hot(self.case.k)

    def encode(self, x: Float64) -> Activations:
        """What the declared rule makes of x (M, K)."""
        parts = [self.checkpoint.activations.encode(x[:, c]) for c in self._columns()]
        values, steps, ties = (
            np.concatenate([getattr(part, name) for part in parts], axis=1)
            for name in ("values", "step", "near_tie")
        )
        return Activations(values, steps, ties)

    def settled(self, x: Float64) -> Float64:
        """`x`, with values that lie near a tie moved on by a few ulps: one code is right for each.

        In a block whose scale is near a tie, all are. What few are left, `encode` still marks.
        """
        for _ in range(4):
            near_tie = self.encode(x).near_tie
            if not near_tie.any():
                break
            x = np.where(near_tie, x + np.copysign(ulp(x, self.kind), x), x)
        return x

    def compare(self, x: Float64, got: Float64, allowance: Noise | None = None) -> Comparison:
        """An output (M, N) for x beside the product of x and the checkpoint's weight."""
        checkpoint = self.checkpoint
        product = Product(x, checkpoint.weight, checkpoint.bias)
        noise = checkpoint.format.noise(product, self.accumulator)
        noise = noise + float64_noise(x, checkpoint.weight)
        noise = noise + subnormal_noise(product.parts, noise)
        if allowance is not None:
            noise = noise + allowance
        if self.ranks > 1:
            noise = noise + self._partial_sums(x)
        return Comparison(got, product.parts, product.exact, noise, self.kind, checkpoint.layout)

    def _columns(self) -> list[slice]:
        width = self.case.k // self.ranks
        return [slice(rank * width, (rank + 1) * width) for rank in range(self.ranks)]

    def _partial_sums(self, x: Float64) -> Noise:
        total = no_noise((len(x), self.checkpoint.layout.n))
        for rank, columns in enumerate(self._columns()):
            product = matmul(x[:, columns], self.checkpoint.weight[:, columns])
            bias = self.checkpoint.bias if rank == 0 else None
            partial = product if bias is None else product + bias
            total = total + rounding_noise(partial, self.kind) + subnormal_noise(product[None])
        return total


def _beside(parts: list[Float64]) -> Float64:
    return np.concatenate(parts, axis=1)
