# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.fp8_block_scaled_mm`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.group_scales import group_major
from layers.kernels.triton_matmul import launch, store_tile, tile_of


@triton.jit(do_not_specialize=["m"])
def _multiply(
    a_ptr,
    b_ptr,
    a_scale_ptr,
    b_scale_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    a_stride,
    b_stride,
    HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile_row, tile_column = tile_of(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, 8)
    rows = (tile_row * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_column * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    row_inside = rows[:, None] < m
    column_inside = columns[None, :] < n
    steps = tl.arange(0, BLOCK_K)
    groups = tl.cdiv(k, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_stride + steps[None, :]
    b_ptrs = b_ptr + columns[None, :] * b_stride + steps[:, None]
    a_scale_ptrs = a_scale_ptr + rows[:, None]
    # Each group of scales takes whole fours of rows.
    a_scale_step = tl.cdiv(m, 4) * 4
    # Scale blocks are square and BLOCK_N divides them: one scale of the weight serves the tile.
    b_scale_ptr += tile_column * BLOCK_N // BLOCK_K * groups
    out = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for group in range(0, groups):
        start = group * BLOCK_K
        left = k - start
        a = tl.load(a_ptrs + start, mask=row_inside & (steps[None, :] < left), other=0.0)
        b = tl.load(b_ptrs + start, mask=column_inside & (steps[:, None] < left), other=0.0)
        a_scale = tl.load(a_scale_ptrs + group * a_scale_step, mask=row_inside, other=0.0)
        b_scale = tl.load(b_scale_ptr + group)
        # In this order: the product of two small scales alone may leave float32's range.
        out += tl.dot(a, b) * a_scale * b_scale
    store_tile(out, bias_ptr, out_ptr, rows, columns, m, n, HAS_BIAS)


def multiply_triton(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """As `fp8_block_scaled_mm.multiply_torch`, on a GPU.

    Strides are taken for granted, as `layers.kernels.triton_matmul.launch` says.
    """
    return launch(_multiply, a, b, group_major(a_scale), b_scale, out_dtype, bias)
