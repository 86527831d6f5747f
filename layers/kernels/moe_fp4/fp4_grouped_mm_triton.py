# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.moe_fp4.fp4_grouped_mm`: weight-only, rows stay as they are.

As in `layers.kernels.fp4.w4a16_mm_triton`, whose decoding it shares, a program computes a tile of
the transposed output, with the decoded weight as the tensor cores' first operand.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp4.fp4_triton import swizzled_offset
from layers.kernels.fp4.scales import MXFP4, BlockFormat
from layers.kernels.fp4.w4a16_mm_triton import decode_tile, operand_of
from layers.kernels.moe.grouped_triton import NOT_SPECIALISED, Tiles, block_of, launch, store_pairs
from layers.kernels.moe.routing import Routing


def choose_tiles(routing: Routing) -> Tiles:
    """Few pairs an expert need flat tiles; K of a step shrinks as the decoded weight grows."""
    pairs = routing.pairs // routing.experts
    if pairs <= 16:
        return Tiles(rows=16, columns=64, k=128, warps=4, stages=4)
    if pairs <= 64:
        return Tiles(rows=64, columns=64, k=128, warps=4, stages=3)
    return Tiles(rows=128, columns=128, k=64, warps=8, stages=3)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _multiply(
    a_ptr,
    weight_ptr,
    alpha_ptr,
    scale_ptr,
    bias_ptr,
    out_ptr,
    pairs_ptr,
    experts_ptr,
    blocks,
    pair_count,
    per_row,
    n,
    half_k,
    a_stride,
    expert_stride,
    row_stride,
    runs,
    alpha_step,
    HAS_ALPHA: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    E8M0: tl.constexpr,
    GROUP: tl.constexpr,
    OPERAND: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, pairs, columns = block_of(pairs_ptr, experts_ptr, blocks, n, BLOCK_M, BLOCK_N)
    if expert < 0:
        return
    steps = tl.arange(0, BLOCK_K)
    halves = tl.arange(0, BLOCK_K // 2)
    groups = tl.arange(0, BLOCK_K // GROUP)
    is_pair = pairs[None, :] < pair_count
    column_inside = columns[:, None] < n
    scale_columns = half_k // (GROUP // 2)
    # Each expert's scales fill whole tiles of 128 rows by 4 columns.
    scale_ptr += expert * (tl.cdiv(n, 128) * tl.cdiv(scale_columns, 4) * 512)
    a_ptrs = a_ptr + (pairs // per_row)[None, :] * a_stride + steps[:, None]
    weight_ptrs = weight_ptr + expert * expert_stride + columns[:, None] * row_stride
    weight_ptrs += halves[None, :]
    out = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, half_k, BLOCK_K // 2):
        left = half_k - start
        packed = tl.load(
            weight_ptrs + start, mask=column_inside & (halves[None, :] < left), other=0
        )
        group = start // (GROUP // 2) + groups[None, :]
        scale_ptrs = scale_ptr + swizzled_offset(columns[:, None], group, scale_columns)
        scale = tl.load(scale_ptrs, mask=column_inside & (group < scale_columns), other=0)
        a = tl.load(a_ptrs + start * 2, mask=is_pair & (steps[:, None] < left * 2), other=0.0)
        weight = decode_tile(packed, scale, GROUP, E8M0, OPERAND)
        out = tl.dot(weight, a.to(OPERAND), acc=out, input_precision="ieee")
    if HAS_ALPHA:
        run = columns[:, None] // (n // runs)
        out *= tl.load(alpha_ptr + expert * runs + run, mask=column_inside, other=0.0)
    store_pairs(tl.trans(out), bias_ptr, out_ptr, expert, pairs, columns, pair_count, n, HAS_BIAS)


def multiply_triton(
    a: torch.Tensor,
    a_scale: torch.Tensor | None,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
    *,
    block: BlockFormat,
    alpha: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes and returns what `fp4_grouped_mm.multiply_torch` does without `a_scale`, on a GPU.

    Checks nothing, as it runs in every forward: all on one GPU, the rows of a dense, everything
    else contiguous.
    """
    return launch(
        _multiply,
        choose_tiles(routing),
        a,
        alpha,
        weight,
        weight_scale,
        bias,
        routing,
        HAS_ALPHA=alpha is not None,
        E8M0=block is MXFP4,
        GROUP=block.group,
        OPERAND=operand_of(a.dtype, block),
    )
