"""Inputs that make a layer tell what it holds and what it does."""

import ml_dtypes
import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.rounding import BF16, FloatType


def one_hot(k: int) -> Float64:
    """(k, k) identity: row i of the output is column i of the loaded weight, in output precision.

    Every format holds 1.0 with a dynamic scale: 1 is the code amax at scale 1/max, off by at most
    the rounding of that scale.
    """
    return np.eye(k)


def natural(rng: np.random.Generator, m: int, k: int, kind: FloatType = BF16) -> Float64:
    """(m, k) normal activations with a scale of its own a row, rounded to `kind`."""
    x = rng.standard_normal((m, k)) * np.exp2(rng.uniform(-3, 3, (m, 1)))
    narrow = ml_dtypes.bfloat16 if kind == BF16 else np.float16
    return x.astype(narrow).astype(np.float64)
