"""Grouped e4m3 matmuls: `layers.kernels.moe.grouped` with the arithmetic of the linear ones.

- GROUPED_FP8_SCALED_MM, as `layers.kernels.fp8.fp8_scaled_mm`: a_scale (rows of a, 1),
  weight_scale (experts, N, 1), float32.
- GROUPED_FP8_BLOCK_SCALED_MM, as `layers.kernels.fp8.fp8_block_scaled_mm`: a_scale (rows of a,
  ceil(K / 128)), weight_scale (experts, ceil(N / 128), ceil(K / 128)), float32.

Triton moves sums from the tensor cores into float32 every 128 products, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8 import fp8_block_scaled_mm, fp8_scaled_mm
from layers.kernels.moe.grouped import expert_by_expert, linear_torch

multiply_torch = expert_by_expert(linear_torch(fp8_scaled_mm.multiply_torch))
multiply_block_torch = expert_by_expert(linear_torch(fp8_block_scaled_mm.multiply_torch))


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.grouped_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_block_triton() -> Callable[..., Any]:
    from layers.kernels.moe.grouped_block_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_block_sgl_kernel() -> Callable[..., Any]:
    from layers.kernels.moe.grouped_fp8_block_sgl_kernel import multiply_sgl_kernel

    return multiply_sgl_kernel


GROUPED_FP8_SCALED_MM = Operation(
    "grouped_fp8_scaled_mm",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
GROUPED_FP8_BLOCK_SCALED_MM = Operation(
    "grouped_fp8_block_scaled_mm",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_block_triton),
        # Behind Triton, which does not round the products to bfloat16.
        Backend(
            "sgl_kernel",
            Needs(
                package="sgl_kernel",
                min_arch=(9, 0),
                max_arch=(10, 3),
                dtypes=(torch.bfloat16,),
                k_multiple=128,
                n_multiple=128,
            ),
            _load_block_sgl_kernel,
        ),
        Backend("torch", Needs(), lambda: multiply_block_torch),
    ),
)
