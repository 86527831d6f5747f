"""How far a right kernel's output may lie from the exact product: the error model.

A kernel computes v = r + ε and stores y = round(v), r the exact product of what the format holds.
The rounding of the output is deterministic, so y must lie in [round(r - a), round(r + a)] with
a ≥ |ε|. With fp32 arithmetic a is thousands of times smaller than an ulp of bf16: almost every
element of y must equal round(r) bit for bit, and a bias shows as flips to a neighbour. Tensor cores
that add e4m3 keep 14 bits only: there a is an ulp or two (`tensor_cores`), and a bias has to stand
out from the scatter. How a backend adds up is its `Accumulator`, which a test's `Method` states.

Roundings of fp32 are counted as u = 2^-24 each (Higham, Accuracy and Stability of Numerical
Algorithms, section 3.1): n of them in a row change a value by at most n·u/(1 - n·u).
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.rounding import FP32, FloatType, ulp


@dataclass(frozen=True)
class Noise:
    """What a right kernel may add to the exact product before its last rounding.

    bound: (M, N) largest |ε| of one element.
    std: (M, N) standard deviation of ε where errors of elements are independent.
    systematic: (M, N) part of the bound that may have one sign over a whole tensor, such as the
        rounding of a scale that all elements share.
    """

    bound: Float64
    std: Float64
    systematic: Float64

    def __add__(self, other: "Noise") -> "Noise":
        return Noise(
            self.bound + other.bound,
            np.hypot(self.std, other.std),
            self.systematic + other.systematic,
        )


def no_noise(shape: tuple[int, ...]) -> Noise:
    """The kernel is exact up to its last rounding."""
    return Noise(np.zeros(shape), np.zeros(shape), np.zeros(shape))


def gamma(roundings: int) -> float:
    """Relative error bound of that many fp32 roundings in a row."""
    nu = roundings * FP32.unit_roundoff
    return nu / (1 - nu)


def float64_noise(x: Float64, w: Float64) -> Noise:
    """What the reference x·wᵀ, x (M, K), w (N, K), itself may be off by; it shows where r cancels.

    K roundings of 2^-53 on Σ|x||w|, which is at most the product of the norms.
    """
    size = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(w, axis=1))
    bound = x.shape[1] * 2.0**-53 * size
    return Noise(bound, bound, np.zeros_like(bound))


def subnormal_noise(parts: Float64, before: Noise | None = None) -> Noise:
    """What fp32 loses below 2^-126: up to 2^-150 a rounding, and the product itself if flushed.

    parts: (B, M, N) what each K block adds.
    before: what a right kernel's sum may be off by. A tensor core that truncates ends below a
        product that lies a little above 2^-126, as sgl_kernel's fp8_scaled_mm did on an H200 for
        1.1786e-38, and flushes that.

    A kernel may write zero for a product below 2^-126, as sgl_kernel's int8_scaled_mm does on an
    H200. What lies above must not suffer, nor a block's part of it.
    """
    smallest = 2.0**FP32.min_exponent
    product = np.abs(parts.sum(axis=0))
    error = np.zeros_like(product) if before is None else before.bound
    # The sum lies within `error` of the product; a flush takes what it is, less than the smallest.
    flushed = np.where(product - error < smallest, np.minimum(product + error, smallest), 0.0)
    bound = flushed + (6 + len(parts)) * 2.0**-150
    return Noise(bound, bound, bound)


def rounding_noise(value: Float64, kind: FloatType) -> Noise:
    """One more rounding to `kind` on the way, as when a partial sum crosses ranks in bf16."""
    half = ulp(value, kind) / 2
    return Noise(half, half / np.sqrt(3), np.zeros_like(half))
