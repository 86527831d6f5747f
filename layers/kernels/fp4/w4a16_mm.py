"""Matmul of activations with a weight of 4-bit blocks, NVFP4 or MXFP4; x is not quantised.

    out = (x · (codes · block scale)ᵀ) · alpha + bias

A code times its block scale is exact (of at most six significant bits). Products are summed over K
in float32; alpha, one a column of the output, and the bias are applied in float32, in this order,
and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.dequantise import multiply_slices
from layers.kernels.fp4.scales import BlockFormat


def multiply_torch(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    *,
    block: BlockFormat,
) -> torch.Tensor:
    """The arithmetic above on any device, with at most 16 MiB of dequantised weight at a time.

    Args:
        x: (M, K) float16, bfloat16 or float32.
        weight: (N, K / 2) uint8, packed E2M1.
        weight_scale: swizzled (N128, C4) uint8, see `layers.kernels.fp4.swizzle`.
        alpha: (N,) float32; None is 1.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.
        block: the weight's format.

    Returns:
        (M, N) of out_dtype.
    """
    out = multiply_slices(x.float(), weight, weight_scale, block)
    if alpha is not None:
        out.mul_(alpha)
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp4.w4a16_mm_triton import multiply_triton

    return multiply_triton


W4A16_MM = Operation(
    "w4a16_mm",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0), k_multiple=16), _load_triton),
        Backend("torch", Needs(k_multiple=16), lambda: multiply_torch),
    ),
)
