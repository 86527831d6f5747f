# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of the grouped int8 and fp8 matmuls with scales of 1x128 and 128x128 blocks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.moe.grouped_triton import (
    NOT_SPECIALISED,
    block_of,
    choose_tiles,
    launch,
    store_pairs,
)
from layers.kernels.moe.routing import Routing

BLOCK = 128


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def _multiply(
    a_ptr,
    weight_ptr,
    a_scale_ptr,
    weight_scale_ptr,
    bias_ptr,
    out_ptr,
    pairs_ptr,
    experts_ptr,
    blocks,
    pair_count,
    per_row,
    n,
    k,
    a_stride,
    expert_stride,
    row_stride,
    a_scale_stride,
    a_scale_step,
    SUM: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, pairs, columns = block_of(pairs_ptr, experts_ptr, blocks, n, BLOCK_M, BLOCK_N)
    if expert < 0:
        return
    steps = tl.arange(0, BLOCK_K)
    is_pair = pairs[:, None] < pair_count
    column_inside = columns[None, :] < n
    rows = pairs // per_row
    a_ptrs = a_ptr + rows[:, None] * a_stride + steps[None, :]
    weight_ptrs = weight_ptr + expert * expert_stride + columns[None, :] * row_stride
    weight_ptrs += steps[:, None]
    a_scale_ptrs = a_scale_ptr + rows[:, None] * a_scale_stride
    groups = tl.cdiv(k, BLOCK_K)
    # Scale blocks are square and BLOCK_N divides them: one scale of the weight serves the tile.
    scale_row = expert * tl.cdiv(n, BLOCK_K) + tl.min(columns, axis=0) // BLOCK_K
    weight_scale_ptr += scale_row * groups
    out = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for group in range(0, groups):
        start = group * BLOCK_K
        left = k - start
        a = tl.load(a_ptrs + start, mask=is_pair & (steps[None, :] < left), other=0.0)
        b = tl.load(weight_ptrs + start, mask=column_inside & (steps[:, None] < left), other=0.0)
        a_scale = tl.load(a_scale_ptrs + group * a_scale_step, mask=is_pair, other=0.0)
        weight_scale = tl.load(weight_scale_ptr + group)
        out += tl.dot(a, b, out_dtype=SUM).to(tl.float32) * a_scale * weight_scale
    store_pairs(out, bias_ptr, out_ptr, expert, pairs, columns, pair_count, n, HAS_BIAS)


def multiply_triton(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
) -> torch.Tensor:
    """A `layers.kernels.moe.grouped.GroupedMultiply` on a GPU.

    a and weight int8 or float8_e4m3fn; a_scale (rows of a, ceil(K / 128)) with any strides,
    weight_scale (experts, ceil(N / 128), ceil(K / 128)).
    """
    tiles = choose_tiles(routing, 1, BLOCK)
    total = tl.int32 if a.dtype is torch.int8 else tl.float32
    return launch(_multiply, tiles, a, a_scale, weight, weight_scale, bias, routing, SUM=total)
