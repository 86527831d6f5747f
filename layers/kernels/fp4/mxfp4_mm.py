"""Matmul of MXFP4 activations with an MXFP4 weight (W4A4).

    out = â · b̂ᵀ + bias,   â = a codes · a block scale,   b̂ likewise

â and b̂ are exact; products are summed over K in float32, the bias is added in float32, and the
result is rounded once. FlashInfer's `mm_fp4` takes no bias, which would be added after rounding: a
layer with one goes to another backend. It needs sm100 and has never run on one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.alpha_runs import multiply_runs
from layers.kernels.fp4.dequantise import dequantise_swizzled, multiply_slices
from layers.kernels.fp4.scales import MXFP4


def multiply_torch(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The arithmetic above on any device, with at most 16 MiB of dequantised weight at a time.

    Args:
        a: (M, K / 2) uint8, packed E2M1.
        a_scale: swizzled E8M0 (M128, C4) uint8, see `layers.kernels.fp4.swizzle`.
        weight: (N, K / 2) uint8, packed E2M1.
        weight_scale: swizzled E8M0 (N128, C4) uint8.
        alpha: None: MXFP4 has no global scale.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    out = multiply_slices(dequantise_swizzled(a, a_scale, MXFP4), weight, weight_scale, MXFP4)
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def _load_flashinfer() -> Callable[..., Any]:
    from layers.kernels.fp4.mxfp4_flashinfer import matmul

    return partial(multiply_runs, matmul=matmul)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp4.mxfp4_mm_triton import multiply_triton

    return multiply_triton


# Of rows of the weight for FlashInfer, arranged by `layers.kernels.fp4.alpha_runs` as one run.
RUN_ROW_MULTIPLE = {"flashinfer": 32}


MXFP4_MM = Operation(
    "mxfp4_mm",
    (
        Backend(
            "flashinfer",
            Needs(
                package="flashinfer",
                min_arch=(10, 0),
                dtypes=(torch.float16, torch.bfloat16),
                k_multiple=32,
                bias=False,
            ),
            _load_flashinfer,
        ),
        Backend("triton", Needs(package="triton", min_arch=(8, 0), k_multiple=32), _load_triton),
        Backend("torch", Needs(k_multiple=32), lambda: multiply_torch),
    ),
)
