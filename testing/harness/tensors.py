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
KINDS: dict[str, FloatType] = {"bfloat16": BF16, "float16": FP16, "float32": FP32}


def to_torch(array: NDArray[Any], device: torch.device | str = "cpu") -> torch.Tensor:
    """The array with its own dtype; ml_dtypes' bfloat16 becomes torch.bfloat16."""
    if array.dtype == ml_dtypes.bfloat16:
        bits = torch.from_numpy(np.ascontiguousarray(array).view(np.int16))
        return bits.view(torch.bfloat16).to(device)
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


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
