"""Inputs that make a layer tell what it holds and what it does."""

import ml_dtypes
import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.rounding import BF16, FP16, FP32, FloatType


def one_hot(k: int) -> Float64:
    """(k, k) identity: row i of the output is column i of the loaded weight, in output precision.

    Every format holds 1.0 with a dynamic scale: 1 is the code amax at scale 1/max, off by at most
    the rounding of that scale.
    """
    return np.eye(k)


def natural(rng: np.random.Generator, m: int, k: int, kind: FloatType = BF16) -> Float64:
    """(m, k) normal activations with a scale of its own a row, rounded to `kind`."""
    return _narrowed(rng.standard_normal((m, k)) * np.exp2(rng.uniform(-3, 3, (m, 1))), kind)


# log2 of the largest value of a row. The first rows hold subnormal values of bf16, with an amax/127
# below 2^-126, and of fp16; the last of fp16 leaves its outputs room below 65504.
_RANGE = {
    "bfloat16": (-119.5, -60, -20, 15, 60),
    "float16": (-20, -12, 14),
    "float32": (-119.5, -20, 60),
}


def wide_range(rng: np.random.Generator, k: int, kind: FloatType = BF16) -> Float64:
    """(rows, k): a row near each end of `kind`'s range, and between; amax is 2^e up to rounding.

    The cube of a normal value: many codes are small, so that a row's sum stays near its largest.
    """
    x = rng.standard_normal((len(_RANGE[kind.name]), k)) ** 3
    x /= np.abs(x).max(axis=1, keepdims=True)
    return _narrowed(x * np.exp2(np.array(_RANGE[kind.name], np.float64))[:, None], kind)


def _narrowed(x: Float64, kind: FloatType) -> Float64:
    narrow = {BF16: ml_dtypes.bfloat16, FP16: np.float16, FP32: np.float32}[kind]
    return x.astype(narrow).astype(np.float64)
