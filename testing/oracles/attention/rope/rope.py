"""Rotary position embedding from its definition: a pair of values turned by position·frequency.

RoFormer (arXiv:2104.09864, section 3.2.2): pair i of d/2 turns by the angle p·base^(-2i/d). Which
two values make a pair is a convention: "neox" pairs i with i + d/2, "gptj" pairs 2i with 2i + 1.

YaRN (arXiv:2309.00071, section 3.2 and appendix A.2; DeepSeek-V2's `rope_scaling`) divides the
frequencies of slow pairs by `factor`, keeps those of fast ones, and goes linearly from the one to
the other between the pairs that turn `beta_fast` and `beta_slow` times within the original context,
rounded outwards unless `truncate` is false (gpt-oss); the vector grows by the ratio of two
magnitudes m(s) = 0.1·s·ln(factor) + 1.

Llama 3.1's `rope_scaling` divides the frequencies of wavelengths beyond original/low_freq_factor,
keeps those below original/high_freq_factor, and mixes between, linearly in original/wavelength.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64
from testing.oracles.rounding import FP32

_UNIT = FP32.unit_roundoff


@dataclass(frozen=True)
class Yarn:
    """`rope_scaling` of type "yarn"; original: max positions before scaling."""

    factor: float
    original: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 0.0
    truncate: bool = True


@dataclass(frozen=True)
class Llama3:
    """`rope_scaling` of type "llama3"; original: max positions before scaling."""

    factor: float
    original: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0


@dataclass(frozen=True)
class Rope:
    """dim: values that are turned, an even number; style: "neox" or "gptj"."""

    dim: int
    base: float = 10000.0
    style: str = "gptj"
    scaling: Yarn | Llama3 | None = None

    def frequencies(self) -> Float64:
        """(dim/2,) radians a position."""
        plain = self.base ** (-2.0 * np.arange(self.dim // 2) / self.dim)
        if isinstance(self.scaling, Yarn):
            return _yarn(self, plain, self.scaling)
        if isinstance(self.scaling, Llama3):
            return _llama3(plain, self.scaling)
        return np.asarray(plain)

    def magnitude(self) -> float:
        """What the turned vector is multiplied by."""
        if not isinstance(self.scaling, Yarn):
            return 1.0
        scaling = self.scaling
        return _mscale(scaling.factor, scaling.mscale) / _mscale(
            scaling.factor, scaling.mscale_all_dim
        )


def _mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * float(np.log(factor)) + 1.0


def _yarn(rope: Rope, plain: Float64, scaling: Yarn) -> Float64:
    def pair_of(turns: float) -> float:
        # Pair i turns original·base^(-2i/d)/2π times in the original context.
        ratio = scaling.original / (turns * 2 * np.pi)
        return rope.dim * float(np.log(ratio)) / (2 * float(np.log(rope.base)))

    fast, slow = pair_of(scaling.beta_fast), pair_of(scaling.beta_slow)
    if scaling.truncate:
        fast, slow = float(np.floor(fast)), float(np.ceil(slow))
    fast, slow = max(fast, 0.0), min(slow, rope.dim - 1.0)
    slow = slow if slow > fast else fast + 0.001
    share = np.clip((np.arange(rope.dim // 2) - fast) / (slow - fast), 0, 1)
    return np.asarray(plain * (1 - share) + plain / scaling.factor * share)


def _llama3(plain: Float64, scaling: Llama3) -> Float64:
    turns = scaling.original * plain / (2 * np.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    share = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(plain * share + plain / scaling.factor * (1 - share))


def rotate(x: Float64, positions: NDArray[np.int64], rope: Rope) -> Float64:
    """x (T, …, dim) turned by positions (T,): in float64, not rounded."""
    first, second = _pairs(x, rope.style)
    angle = np.asarray(positions, np.float64)[:, None] * rope.frequencies()
    angle = angle.reshape(angle.shape[0], *([1] * (x.ndim - 2)), angle.shape[1])
    cos, sin = np.cos(angle) * rope.magnitude(), np.sin(angle) * rope.magnitude()
    return _together(first * cos - second * sin, second * cos + first * sin, rope.style)


def rotation_bound(x: Float64, rope: Rope) -> Float64:
    """(T, …, dim): how far float32 arithmetic on float32 tables may be off, before any rounding.

    The table's cos and sin are rounded once from exact angles, and once more by a magnitude: 2u.
    Two products and their sum: u each, or less where they are fused. So 4u of |x₁ cos| + |x₂ sin|,
    which is at most the pair's length times the magnitude.
    """
    first, second = _pairs(x, rope.style)
    size = np.hypot(first, second) * rope.magnitude() * 4 * _UNIT
    return _together(size, size, rope.style)


def _pairs(x: Float64, style: str) -> tuple[Float64, Float64]:
    half = x.shape[-1] // 2
    if style == "neox":
        return x[..., :half], x[..., half:]
    return x[..., 0::2], x[..., 1::2]


def _together(first: Float64, second: Float64, style: str) -> Float64:
    if style == "neox":
        return np.concatenate([first, second], axis=-1)
    pairs = np.stack([first, second], axis=-1)
    return pairs.reshape(*first.shape[:-1], 2 * first.shape[-1])
