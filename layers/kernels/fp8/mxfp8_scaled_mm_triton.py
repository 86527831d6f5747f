# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.mxfp8_scaled_mm`.

sm90 has no tensor cores that read E8M0 scales. Codes are scaled in registers to bfloat16, which
holds a code times a power of two, and multiplied there. The scales of a are taken relative to the
largest of its row in each step along K, which is applied to the step's sum in float32: activations
near the end of float32's range are then as exact as others.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.triton_matmul import launch, store_tile, tile_of


@triton.jit
def _power(scale):
    """E8M0 byte -> float32; the smallest is below the normal numbers."""
    bits = tl.where(scale == 0, 0x00400000, scale << 23)
    return tl.where(scale == 255, float("nan"), bits.to(tl.float32, bitcast=True))


@triton.jit
def _scaled(codes, exponent, ROWS: tl.constexpr, BLOCKS: tl.constexpr):
    """e4m3 codes (rows, K) times 2^(exponent - 127) by blocks (rows, K / 32) -> bfloat16."""
    subnormal = tl.where(exponent == 0, 0x0040, 0)
    bits = tl.where(exponent > 0, exponent << 7, subnormal).to(tl.int16)
    power = bits.to(tl.bfloat16, bitcast=True)
    wide = tl.broadcast_to(power[:, :, None], (ROWS, BLOCKS, 32))
    return codes.to(tl.bfloat16) * tl.reshape(wide, (ROWS, BLOCKS * 32))


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
    column_inside = columns[:, None] < n
    steps = tl.arange(0, BLOCK_K)[None, :]
    block = tl.arange(0, BLOCK_K // 32)[None, :]
    blocks = k // 32
    out = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inside = start + steps < k
        first = start // 32 + block
        a = tl.load(a_ptr + rows[:, None] * a_stride + start + steps, row_inside & inside, 0.0)
        b = tl.load(
            b_ptr + columns[:, None] * b_stride + start + steps, column_inside & inside, 0.0
        )
        held = first < blocks
        a_scale = tl.load(a_scale_ptr + rows[:, None] * blocks + first, row_inside & held, 0)
        b_scale = tl.load(b_scale_ptr + columns[:, None] * blocks + first, column_inside & held, 0)
        a_scale = a_scale.to(tl.int32)
        largest = tl.max(a_scale, axis=1, keep_dims=True)
        # 2^0 for the largest of the row. A NaN is the largest, and reaches the sum with it.
        a = _scaled(a, a_scale - largest + 127, BLOCK_M, BLOCK_K // 32)
        b = _scaled(b, b_scale.to(tl.int32), BLOCK_N, BLOCK_K // 32)
        out += tl.dot(a, b.T) * _power(largest)
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
    return launch(_multiply, a, b, a_scale, b_scale, out_dtype, bias)
