"""Grouped int8 matmuls: `layers.kernels.moe.grouped` with the arithmetic of the linear ones.

- GROUPED_INT8_SCALED_MM, as `layers.kernels.int8_scaled_mm`: a_scale (rows of a, 1), weight_scale
  (experts, N, 1), float32. The sum over K is exact in integers.
- GROUPED_INT8_BLOCK_SCALED_MM, as `layers.kernels.int8_block_scaled_mm`: a_scale (rows of a,
  ceil(K / 128)), weight_scale (experts, ceil(N / 128), ceil(K / 128)), float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layers.kernels import int8_block_scaled_mm, int8_scaled_mm
from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.int8_scaled_mm import INT32_SAFE_K
from layers.kernels.moe.grouped import expert_by_expert, linear_torch

multiply_torch = expert_by_expert(linear_torch(int8_scaled_mm.multiply_torch))
multiply_block_torch = expert_by_expert(linear_torch(int8_block_scaled_mm.multiply_torch))


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.grouped_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_block_triton() -> Callable[..., Any]:
    from layers.kernels.moe.grouped_block_scaled_mm_triton import multiply_triton

    return multiply_triton


GROUPED_INT8_SCALED_MM = Operation(
    "grouped_int8_scaled_mm",
    (
        Backend(
            "triton", Needs(package="triton", min_arch=(8, 0), k_max=INT32_SAFE_K), _load_triton
        ),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
GROUPED_INT8_BLOCK_SCALED_MM = Operation(
    "grouped_int8_block_scaled_mm",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_block_triton),
        Backend("torch", Needs(), lambda: multiply_block_torch),
    ),
)
