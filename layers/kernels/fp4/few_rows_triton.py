# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The kernel of `layers.kernels.fp4.w4a16_mm_triton` for up to 16 rows of x.

There the output has too few tiles to keep a GPU busy with decoding, so the warps of a program share
out K as well: a batch of products, whose sums are added at the end, in the order of K.
"""

from __future__ import annotations

import triton
import triton.language as tl

from layers.kernels.fp4.fp4_triton import decode_pairs, decode_scale, swizzled_offset
from layers.kernels.triton_matmul import store_tile


@triton.jit(do_not_specialize=["m"])
def multiply_few_rows(
    x_ptr,
    weight_ptr,
    scale_ptr,
    alpha_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    x_stride,
    HAS_ALPHA: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    E8M0: tl.constexpr,
    GROUP: tl.constexpr,
    OPERAND: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A program computes all rows of BLOCK_N columns; a step takes SPLITS times BLOCK_K of K."""
    GROUPS: tl.constexpr = BLOCK_K // GROUP
    rows = tl.arange(0, BLOCK_M).to(tl.int64)
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    row_inside = rows[None, None, :] < m
    column = columns[None, :, None]
    split = tl.arange(0, SPLITS)[:, None, None]
    steps = split * BLOCK_K + tl.arange(0, BLOCK_K)[None, :, None]
    halves = split * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)[None, None, :]
    groups = split * GROUPS + tl.arange(0, GROUPS)[None, None, :]
    x_ptrs = x_ptr + rows[None, None, :] * x_stride + steps
    weight_ptrs = weight_ptr + column * (k // 2) + halves
    sums = tl.zeros((SPLITS, BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, k, SPLITS * BLOCK_K):
        left = k - start
        inside = (column < n) & (halves < left // 2)
        packed = tl.load(weight_ptrs + start // 2, mask=inside, other=0)
        group = start // GROUP + groups
        scale_ptrs = scale_ptr + swizzled_offset(column, group, k // GROUP)
        scale = tl.load(scale_ptrs, mask=group < k // GROUP, other=0)
        x = tl.load(x_ptrs + start, mask=row_inside & (steps < left), other=0.0)
        blocks = tl.reshape(decode_pairs(packed, OPERAND), (SPLITS, BLOCK_N, GROUPS, GROUP))
        blocks *= decode_scale(scale, E8M0).to(OPERAND)[:, :, :, None]
        weight = tl.reshape(blocks, (SPLITS, BLOCK_N, BLOCK_K))
        sums = tl.dot(weight, x.to(OPERAND), acc=sums, input_precision="ieee")
    out = tl.sum(sums, axis=0)
    if HAS_ALPHA:
        out *= tl.load(alpha_ptr + columns[:, None], mask=columns[:, None] < n, other=0.0)
    store_tile(tl.trans(out), bias_ptr, out_ptr, rows, columns, m, n, HAS_BIAS)
