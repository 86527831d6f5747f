# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.mxfp8_scaled_mm`.

sm90 has no tensor cores that read E8M0 scales: each block of 32 is a product of its own, which is
scaled and added in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.triton_matmul import launch, store_tile, tile_of

BLOCK = 32


@triton.jit
def _decode(scale):
    """E8M0 byte -> float32; the smallest is below the normal numbers."""
    bits = tl.where(scale == 0, 0x00400000, scale.to(tl.int32) << 23)
    return tl.where(scale == 255, float("nan"), bits.to(tl.float32, bitcast=True))


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
    blocks = k // BLOCK_K
    a_ptrs = a_ptr + rows[:, None] * a_stride + steps[None, :]
    b_ptrs = b_ptr + columns[None, :] * b_stride + steps[:, None]
    a_scale_ptrs = a_scale_ptr + rows[:, None] * blocks
    b_scale_ptrs = b_scale_ptr + columns[None, :] * blocks
    out = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for block in range(0, blocks):
        a = tl.load(a_ptrs + block * BLOCK_K, mask=row_inside, other=0.0)
        b = tl.load(b_ptrs + block * BLOCK_K, mask=column_inside, other=0.0)
        a_scale = _decode(tl.load(a_scale_ptrs + block, mask=row_inside, other=0))
        b_scale = _decode(tl.load(b_scale_ptrs + block, mask=column_inside, other=0))
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
    """As `mxfp8_scaled_mm.multiply_torch`, on a GPU.

    Strides are taken for granted, as `layers.kernels.triton_matmul.launch` says.
    """
    return launch(_multiply, a, b, a_scale, b_scale, out_dtype, bias, block_k=BLOCK)
