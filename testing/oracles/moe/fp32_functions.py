"""Exponential and sigmoid in float64, and how far a float32 kernel's may be off."""

from __future__ import annotations

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.rounding import FP32

_U = FP32.unit_roundoff


def sigmoid(x: Float64) -> Float64:
    """1/(1 + exp(-x)), without overflow on either side."""
    x = np.asarray(x, np.float64)
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))


def exp_error(x: Float64, argument: Float64 | float = 0.0) -> Float64:
    """Relative error of a float32 exp(x).

    x: the argument, |x| at most some 88.
    argument: absolute error that x brings with it, beside its own rounding u·|x|.

    A fast exponential, 2^(x·log2 e), is documented as off by at most 2 + 1.173·|x| ulps (CUDA C++
    Programming Guide, table of intrinsic functions, `__expf`), and an ulp is at most 2u; exact
    libraries stay well below.
    """
    x = np.abs(np.asarray(x, np.float64))
    return np.asarray((2 * (2 + 1.173 * x) + x) * _U + argument)


def sigmoid_error(x: Float64, argument: Float64 | float = 0.0) -> Float64:
    """Relative error of a float32 1/(1 + exp(-x)).

    The exponential's share of 1 + exp(-x) is 1 less the result; the sum rounds once, and a fast
    division is off by at most 2 ulps, 4u.
    """
    return np.asarray(exp_error(x, argument) * (1 - sigmoid(x)) + 5 * _U)
