"""Names of the array types that the oracles pass around."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64: TypeAlias = NDArray[np.float64]
Float32: TypeAlias = NDArray[np.float32]
Int8: TypeAlias = NDArray[np.int8]
Mask: TypeAlias = NDArray[np.bool_]
Tensors: TypeAlias = dict[str, NDArray[Any]]
"""Checkpoint tensors of one weight by suffix, such as 'weight' and 'weight_scale'."""
