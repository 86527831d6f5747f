"""What a linear layer's format means: the description that the probes work from.

A new format (fp8, NVFP4, MX) is one more `LinearFormat`; probes and statistics stay as they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Mask, Tensors
from testing.oracles.bounds import Noise


@dataclass(frozen=True)
class Activations:
    """Activations as the format's dynamic quantiser must leave them.

    values: (M, K) float64, dequantised.
    step: (M, K) float64, distance to the next code, 0 where the format holds the value exactly.
    near_tie: (M, K) bool, where two neighbouring codes are both right.
    """

    values: Float64
    step: Float64
    near_tie: Mask


class LinearFormat(ABC):
    """One quantised linear format.

    Written for formats whose activations are quantised by themselves and whose checkpoint tensors
    have a dimension along N. A format with a static scale in the checkpoint (fp8 per tensor, NVFP4)
    adds two things: `lossless`, `ties`, `encode_activations` and `noise` must then see the tensors,
    and `testing.harness.linear.checkpoint_tensors`, which fuses shards by concatenation, must stack
    0-dim scales.

    name: as messages show it.
    quantises_activations: False where x is multiplied as it comes.
    """

    name: str
    quantises_activations: bool = True

    @abstractmethod
    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Checkpoint tensors of an (n, k) weight by suffix ('weight', 'weight_scale', …).

        Scales differ from tile to tile; `gain` multiplies them all, so that shards can differ.
        """

    @abstractmethod
    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """The (n, k) float64 weight that the tensors stand for."""

    @abstractmethod
    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """(m, k) activations, exact in bf16 and fp16, that the quantiser keeps exactly."""

    @abstractmethod
    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """(m, k) activations, exact in bf16 and fp16, most of them halfway between two codes.

        Scales and quotients are exact however a kernel forms them, so only one code is right.
        """

    @abstractmethod
    def encode_activations(self, x: Float64) -> Activations:
        """What the declared rule makes of x (m, k)."""

    @abstractmethod
    def identity_weight(self, k: int) -> Tensors:
        """Checkpoint tensors of the (k, k) identity: the layer's output is then x̂ itself."""

    @abstractmethod
    def snap(self, read: Float64, like: Activations) -> Float64:
        """`read` (m, k), an x̂ that was rounded once more on its way out, back on its code."""

    @abstractmethod
    def noise(self, parts: Float64, bias: Float64 | None) -> Noise:
        """Error model of a right kernel; parts (B, M, N) as `blocked_matmul` gives them."""

    @abstractmethod
    def relative_activation_noise(self, x: Float64) -> float:
        """Predicted RMS(x̂ - x) / RMS(x) of the declared quantiser on natural data."""
