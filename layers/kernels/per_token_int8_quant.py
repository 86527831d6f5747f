"""Dynamic int8 quantisation of activations, one scale a token (row).

The rule, in float32: s = amax / 127, codes = round half to even (x / s), clamped to ±127, so that
x ≈ codes · s. A scale below the smallest normal float32 is raised to it: a row of zeros gets codes
0 and no division by zero. A NaN or Inf anywhere in a row makes the row's scale NaN or Inf, and its
codes are then 0, so that the row's products, and no others, are NaN.

sgl_kernel is no backend here: it quantises tokens to float8 only, and to int8 only by groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation

INT8_MAX = 127
SMALLEST_SCALE = 2.0**-126

Quantiser = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float -> codes (M, K) int8 contiguous, scales (M, 1) float32."""
    values = x.float()
    # On CUDA torch divides by a Python number as a product with its rounded reciprocal.
    divisor = torch.full((), INT8_MAX, dtype=torch.float32, device=x.device)
    scales = (values.abs().amax(dim=-1, keepdim=True) / divisor).clamp_(min=SMALLEST_SCALE)
    codes = (values / scales).round_().nan_to_num_(0.0).clamp_(-INT8_MAX, INT8_MAX)
    return codes.to(torch.int8), scales


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.per_token_int8_quant_triton import quantise_triton

    return quantise_triton


PER_TOKEN_INT8_QUANT = Operation(
    "per_token_int8_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: quantise_torch),
    ),
)
