"""Matmul of NVFP4 activations with an NVFP4 weight (W4A4).

    out = (â · b̂ᵀ) · alpha + bias,   â = a codes · a block scale,   b̂ likewise

â and b̂ are exact; products are summed over K in float32; alpha, the product of both global scales,
and the bias are applied in float32, in this order, and the result is rounded once.

FlashInfer's `mm_fp4` takes one alpha and no bias: its backends multiply by runs of rows that share
an alpha, and add the bias to the rounded product, which rounds a second time. They need sm100 and
have never run on one: they were written from FlashInfer 0.6.13's sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.dequantise import dequantise_swizzled, multiply_slices
from layers.kernels.fp4.scales import NVFP4


def multiply_torch(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The arithmetic above on any device, with at most 16 MiB of dequantised weight at a time.

    Args:
        a: (M, K / 2) uint8, packed E2M1.
        a_scale: swizzled E4M3 (M128, C4) uint8, see `layers.kernels.fp4.swizzle`.
        weight: (N, K / 2) uint8, packed E2M1.
        weight_scale: swizzled E4M3 (N128, C4) uint8.
        alpha: (N,) float32.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    out = multiply_slices(dequantise_swizzled(a, a_scale, NVFP4), weight, weight_scale, NVFP4)
    out.mul_(alpha)
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def _load_flashinfer() -> Callable[..., Any]:
    from layers.kernels.fp4.nvfp4_flashinfer import multiply_flashinfer

    return multiply_flashinfer


NVFP4_MM = Operation(
    "nvfp4_mm",
    (
        Backend(
            "flashinfer",
            Needs(
                package="flashinfer",
                min_arch=(10, 0),
                dtypes=(torch.float16, torch.bfloat16),
                k_multiple=16,
            ),
            _load_flashinfer,
        ),
        Backend("torch", Needs(k_multiple=16), lambda: multiply_torch),
    ),
)
