"""Between the oracles' numpy arrays and the layers' torch tensors, without losing a bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from testing.oracles.arrays import Float64
from testing.oracles.rounding import BF16, FP16, FP32, FloatType

DTYPES: dict[str, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
_NARROW = (
    (np.dtype(ml_dtypes.bfloat16), np.int16, torch.bfloat16),
    (np.dtype(ml_dtypes.float8_e4m3fn), np.uint8, torch.float8_e4m3fn),
)
KINDS: dict[str, FloatType] = {"bfloat16": BF16, "float16": FP16, "float32": FP32}


def to_torch(array: NDArray[Any], device: torch.device | str = "cpu") -> torch.Tensor:
    """The array with its own dtype and shape; types of ml_dtypes become torch's of that name."""
    array = np.asarray(array, order="C")
    for narrow, bits, dtype in _NARROW:
        if array.dtype == narrow:
            return torch.from_numpy(array.view(bits)).view(dtype).to(device)
    return torch.from_numpy(array).to(device)


def floats_to_torch(
    values: Float64, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Values that `dtype` holds exactly.

    Raises:
        ValueError: a value would be rounded, so that the layer would not see what the oracle saw.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(values)).to(dtype)
    if not np.array_equal(to_numpy(tensor), values, equal_nan=True):
        raise ValueError(f"a value is not exact in {dtype}: choose inputs of that dtype")
    return tensor.to(device)


def to_numpy(tensor: torch.Tensor) -> Float64:
    """Values as float64, which holds every narrower float exactly."""
    return tensor.detach().to("cpu", torch.float64).numpy()
