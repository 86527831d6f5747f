# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of the grouped int8 and fp8 matmuls with a scale a row and a weight row."""

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

BLOCK_K = 128


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
    out = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUM)
    for start in range(0, k, BLOCK_K):
        left = k - start
        a = tl.load(a_ptrs + start, mask=is_pair & (steps[None, :] < left), other=0.0)
        b = tl.load(weight_ptrs + start, mask=column_inside & (steps[:, None] < left), other=0.0)
        # Hopper's fp8 tensor cores keep 14 bits of a sum: promote it to float32 at every step.
        out = tl.dot(a, b, out, max_num_imprecise_acc=BLOCK_K, out_dtype=SUM)
    a_scale_ptrs = a_scale_ptr + rows[:, None] * a_scale_stride
    a_scale = tl.load(a_scale_ptrs, mask=is_pair, other=0.0)
    weight_scale_ptrs = weight_scale_ptr + expert * n + columns[None, :]
    weight_scale = tl.load(weight_scale_ptrs, mask=column_inside, other=0.0)
    scaled = out.to(tl.float32) * weight_scale * a_scale
    store_pairs(scaled, bias_ptr, out_ptr, expert, pairs, columns, pair_count, n, HAS_BIAS)


def multiply_triton(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
) -> torch.Tensor:
    """A `layers.kernels.moe.grouped.GroupedMultiply` on a GPU.

    a and weight int8 or float8_e4m3fn; a_scale (rows of a, 1), weight_scale (experts, N, 1).
    """
    tiles = choose_tiles(routing, 1, BLOCK_K)
    total = tl.int32 if a.dtype is torch.int8 else tl.float32
    return launch(_multiply, tiles, a, a_scale, weight, weight_scale, bias, routing, SUM=total)
