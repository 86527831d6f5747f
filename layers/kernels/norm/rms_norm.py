"""Root-mean-square norm of rows (Zhang and Sennrich 2019, arXiv 1910.07467), and its backends.

    y = x · weight / sqrt(mean(x²) + eps)

in float32, rounded once. With a residual, x is first their sum, rounded once to its dtype, which is
the next residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation


def rms_norm_torch(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """On any device.

    Args:
        x: (T, N), float16, bfloat16 or float32; rows may have gaps between them.
        residual: of x's shape and dtype, or None.
        weight: (N,) of a float dtype.
        eps: added to the mean.

    Returns:
        The norm (T, N), contiguous, and the sum that it is of (x itself without a residual).
    """
    summed = x if residual is None else (x.float() + residual.float()).to(x.dtype)
    values = summed.float()
    mean = values.pow(2).mean(dim=-1, keepdim=True)
    return (values * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype), summed


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.norm.rms_norm_triton import rms_norm_triton

    return rms_norm_triton


RMS_NORM = Operation(
    "rms_norm",
    (
        # A row stays in one program's registers.
        Backend("triton", Needs(package="triton", min_arch=(8, 0), k_max=16384), _load_triton),
        Backend("torch", Needs(), lambda: rms_norm_torch),
    ),
)
