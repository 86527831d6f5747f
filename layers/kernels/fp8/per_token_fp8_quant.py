"""Dynamic e4m3 quantisation of activations, one scale a token (row).

The rule, in float32: s = amax / 448, codes = e4m3(x / s), half to even and saturating, so that
x ≈ codes · s. A scale below the smallest normal float32 is raised to it: a row of zeros gets codes
0 and no division by zero. A NaN or Inf anywhere in a row makes the row's scale NaN or Inf, so that
the row's products, and no others, are NaN.

sgl_kernel is no backend here: the maximum of its `sgl_per_token_quant_fp8` drops a NaN, whose code
is then 448, and it multiplies by a rounded reciprocal (read in 0.4.2's sources).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.e4m3 import encode, scale_of


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float -> codes (M, K) float8_e4m3fn contiguous, scales (M, 1) float32."""
    values = x.float()
    scales = scale_of(values.abs().amax(dim=-1, keepdim=True))
    return encode(values / scales), scales


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.per_token_fp8_quant_triton import quantise_triton

    return quantise_triton


PER_TOKEN_FP8_QUANT = Operation(
    "per_token_fp8_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: quantise_torch),
    ),
)
