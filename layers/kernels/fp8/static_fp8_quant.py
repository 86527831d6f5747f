"""e4m3 quantisation of activations by one scale that the checkpoint holds.

The rule, in float32: codes = e4m3(x / s), half to even; a finite x beyond ±448 s saturates, while
NaN and Inf have the code NaN, so that their row's products, and no others, are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.e4m3 import encode


def quantise_torch(
    x: torch.Tensor, scale: torch.Tensor, per_row: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the other backends are compared with.

    Args:
        x: (M, K) float.
        scale: (1, 1) float32, above 0.
        per_row: return the scale once a row, for a matmul that takes no single one.

    Returns:
        codes (M, K) float8_e4m3fn contiguous; scales float32, (M, 1) if per_row, else `scale`.
    """
    values = x.float()
    codes = encode(torch.where(values.isinf(), torch.nan, values / scale))
    return codes, scale.expand(x.shape[0], 1).contiguous() if per_row else scale


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.static_fp8_quant_triton import quantise_triton

    return quantise_triton


STATIC_FP8_QUANT = Operation(
    "static_fp8_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: quantise_torch),
    ),
)
