"""Random scales of checkpoints, with full significands, and how arrays of codes are typed."""

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float32
from testing.oracles.codecs.grid import Codes


def random_scales(rng: np.random.Generator, shape: tuple[int, ...], centre: float) -> Float32:
    """fp32 values spread over a factor of four around `centre`."""
    return np.asarray(centre * 2.0 ** rng.uniform(-1, 1, shape)).astype(np.float32)


def power_of_two(value: float) -> Float32:
    """0-dim: the power of two next to `value`."""
    return np.asarray(np.exp2(np.rint(np.log2(value)))).astype(np.float32)


def as_e4m3(codes: Codes) -> NDArray[np.generic]:
    """Bytes as what a checkpoint calls float8_e4m3fn."""
    return codes.view(ml_dtypes.float8_e4m3fn)


def as_bytes(array: NDArray[np.generic]) -> Codes:
    """The bytes of an array of one-byte values."""
    return np.ascontiguousarray(array).view(np.uint8)
