"""int8 matmul with a scale for each 128x128 block of the weight and each 1x128 group of a.

    out = Σ_g (a_g b_g) · a_scale_g · b_scale_g + bias

The sum inside a group of 128 along K is exact in integers; groups are scaled and summed in float32,
in the order of K, and the result is rounded once. The last group and the last block of rows may be
shorter.

sgl_kernel is no backend here: its matmul by blocks takes float8 only, and its int8 matmul a scale
for each row and column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation

BLOCK = 128


def multiply_torch(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The arithmetic above on any device; what the other backends are compared with.

    Args:
        a: (M, K) int8, row-major.
        b: (K, N) int8, column-major: the transpose of a contiguous weight (N, K).
        a_scale: (M, ceil(K / 128)) float32.
        b_scale: (ceil(N / 128), ceil(K / 128)) float32.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    columns = b.shape[1]
    by_column = b_scale.repeat_interleave(BLOCK, dim=0)[:columns]
    out = torch.zeros((a.shape[0], columns), dtype=torch.float32, device=a.device)
    for group, start in enumerate(range(0, a.shape[1], BLOCK)):
        # 128 products of int8 codes, -128 among them, stay below 2^24: exact in float32.
        part = torch.mm(a[:, start : start + BLOCK].float(), b[start : start + BLOCK].float())
        part.mul_(a_scale[:, group : group + 1]).mul_(by_column[:, group])
        out.add_(part)
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.int8_block_scaled_mm_triton import multiply_triton

    return multiply_triton


INT8_BLOCK_SCALED_MM = Operation(
    "int8_block_scaled_mm",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
