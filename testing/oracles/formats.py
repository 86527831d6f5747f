"""What a linear layer's format means: the description that the probes work from.

A new format is one more `LinearFormat`; probes and statistics stay as they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Mask, Tensors
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product


@dataclass(frozen=True)
class Activations:
    """Activations as the format's quantiser must leave them.

    values: (M, K) float64, dequantised.
    step: (M, K) float64, distance to the next code, 0 where the format holds the value exactly.
    near_tie: (M, K) bool, where two neighbouring codes are both right.
    """

    values: Float64
    step: Float64
    near_tie: Mask


class ActivationRule(ABC):
    """How a layer quantises x: a rule of the format, and of the layer's own scales if static.

    quantises: False where x is multiplied as it comes.
    """

    quantises: bool = True

    @abstractmethod
    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """(m, k) activations, exact in bf16 and fp16, whose codes are beyond doubt.

        With a dynamic scale the quantiser keeps them exactly. A static scale of 24 bits leaves no
        such values, but for 0; x is then what bf16 and fp16 have nearest to the middle of a code,
        and `encode` says what comes of it.
        """

    @abstractmethod
    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """(m, k) activations, exact in bf16 and fp16, most of them halfway between two codes.

        Scales and quotients are exact however a kernel forms them, so only one code is right. None
        where there are no such values: nothing is quantised, or the scale has too many bits.
        """

    @abstractmethod
    def encode(self, x: Float64) -> Activations:
        """What the declared rule makes of x (m, k)."""

    @abstractmethod
    def snap(self, read: Float64, like: Activations) -> Float64:
        """`read` (m, k), an x̂ that was rounded once more on its way out, back on its code."""

    @abstractmethod
    def relative_noise(self, x: Float64) -> float:
        """Predicted RMS(x̂ - x) / RMS(x) of the declared quantiser on natural data."""

    def one_hot(self, k: int) -> Float64:
        """(k, k) v·I, v a code that is beyond doubt: row i of the output shows column i of W.

        Every format holds 1.0 with a dynamic scale: 1 is the code amax at scale 1/max, off by at
        most the rounding of that scale.
        """
        return np.eye(k)


class Unchanged(ActivationRule):
    """x is multiplied as it comes; a subclass says which x make the product exact."""

    quantises = False

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """Four-bit integers times a power of two a row."""
        return rng.integers(-15, 16, (m, k)) * np.exp2(rng.integers(-5, -2, (m, 1)).astype(float))

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """There are none: nothing is quantised."""
        return None

    def encode(self, x: Float64) -> Activations:
        """Nothing is quantised."""
        return Activations(x, np.zeros_like(x), np.zeros(x.shape, dtype=bool))

    def snap(self, read: Float64, like: Activations) -> Float64:
        """Every value is a code."""
        return read

    def relative_noise(self, x: Float64) -> float:
        """No quantiser, no noise."""
        return 0.0


class LinearFormat(ABC):
    """One quantised linear format.

    name: as messages show it.
    """

    name: str

    @abstractmethod
    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Checkpoint tensors of an (n, k) weight by suffix ('weight', 'weight_scale', …).

        Scales differ from tile to tile; `gain` multiplies them all, so that shards can differ. The
        `input_scale` of a static format is among them, and differs by the gain likewise.
        """

    @abstractmethod
    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """The (n, k) float64 weight that the tensors stand for."""

    @abstractmethod
    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """How a layer of these shards, {shard name: tensors}, quantises x, which they share."""

    @abstractmethod
    def identity_weight(self, k: int) -> Tensors:
        """Checkpoint tensors of the (k, k) identity: the layer's output is then x̂ itself."""

    @abstractmethod
    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """Error model of a right kernel that adds products up in that way."""
