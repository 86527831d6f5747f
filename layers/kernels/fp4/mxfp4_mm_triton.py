"""Triton backend of `layers.kernels.fp4.mxfp4_mm`, for GPUs whose tensor cores know no FP4.

Activations are few: they are decoded to bfloat16, which holds them exactly, and multiplied by the
packed weight as in `layers.kernels.fp4.w4a16_mm`.
"""

from __future__ import annotations

import torch

from layers.kernels.fp4.dequantise_triton import dequantise_triton
from layers.kernels.fp4.scales import MXFP4
from layers.kernels.fp4.w4a16_mm_triton import multiply_triton as multiply_w4a16


def multiply_triton(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes and returns what `mxfp4_mm.multiply_torch` does, on a GPU."""
    x = dequantise_triton(a, a_scale, MXFP4)
    return multiply_w4a16(x, weight, weight_scale, alpha, out_dtype, bias, block=MXFP4)
