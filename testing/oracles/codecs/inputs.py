"""Every value of the narrow input types, for tests that leave none out."""

import ml_dtypes
import numpy as np

from testing.oracles.arrays import Float64


def finite_bf16() -> Float64:
    """All 65,280 finite bf16 values."""
    return _finite(np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32))


def finite_fp16() -> Float64:
    """All 63,488 finite fp16 values."""
    return _finite(np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32))


def _finite(values: np.typing.NDArray[np.float32]) -> Float64:
    return values[np.isfinite(values)].astype(np.float64)


def around(values: Float64) -> Float64:
    """`values`, and their nearest neighbours in float64 on either side."""
    return np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)])
