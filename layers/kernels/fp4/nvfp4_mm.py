"""Matmul of NVFP4 activations with an NVFP4 weight (W4A4).

    out = (â · b̂ᵀ) · alpha + bias,   â = a codes · a block scale,   b̂ likewise

â and b̂ are exact; products are summed over K in float32; alpha, the product of both global scales,
and the bias are applied in float32, in this order, and the result is rounded once.

FlashInfer's `mm_fp4` takes one alpha and no bias: its backends multiply by runs of rows that share
an alpha (`layers.kernels.fp4.alpha_runs`), and a layer with a bias, which would be added after
rounding, goes to another backend. They need sm100 and have never run on one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.alpha_runs import Shuffle, swizzle_rows
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


def _load_flashinfer(kernel: str) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        from layers.kernels.fp4.nvfp4_flashinfer import multiply_with

        return multiply_with(kernel)

    return load


def load_shuffle(backend: str) -> Shuffle:
    """What a backend in `RUN_ROW_MULTIPLE` makes of a run's codes and row-major scales."""
    if backend != "flashinfer_trtllm":
        return swizzle_rows
    from layers.kernels.fp4.nvfp4_flashinfer import shuffle_for_trtllm

    return shuffle_for_trtllm


_SM100 = Needs(
    package="flashinfer",
    min_arch=(10, 0),
    dtypes=(torch.float16, torch.bfloat16),
    k_multiple=16,
    bias=False,
)

# Of rows, for the backends that take one alpha a matmul: their weights are arranged by
# `layers.kernels.fp4.alpha_runs`, with K padded to 32.
RUN_ROW_MULTIPLE = {
    "flashinfer": 32,
    "flashinfer_cudnn": 32,
    "flashinfer_cutlass": 32,
    "flashinfer_trtllm": 128,
}
RUN_COLUMN_MULTIPLE = 32

NVFP4_MM = Operation(
    "nvfp4_mm",
    (
        # FlashInfer's own choice, of cuDNN and CUTLASS.
        Backend("flashinfer", _SM100, _load_flashinfer("auto")),
        Backend("flashinfer_cudnn", _SM100, _load_flashinfer("cudnn")),
        Backend("flashinfer_cutlass", _SM100, _load_flashinfer("cutlass")),
        Backend(
            "flashinfer_trtllm",
            replace(_SM100, max_arch=(10, 3), dtypes=(torch.bfloat16,)),
            _load_flashinfer("trtllm"),
        ),
        Backend("torch", Needs(k_multiple=16), lambda: multiply_torch),
    ),
)
