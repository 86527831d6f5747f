# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.moe.grouped_mm`."""

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
    a_ptrs = a_ptr + (pairs // per_row)[:, None] * a_stride + steps[None, :]
    weight_ptrs = weight_ptr + expert * expert_stride + columns[None, :] * row_stride
    weight_ptrs += steps[:, None]
    out = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = k - start
        a = tl.load(a_ptrs + start, mask=is_pair & (steps[None, :] < left), other=0.0)
        b = tl.load(weight_ptrs + start, mask=column_inside & (steps[:, None] < left), other=0.0)
        # float32 operands as they are, not cut to tf32.
        out = tl.dot(a, b, out, input_precision="ieee")
    store_pairs(out, bias_ptr, out_ptr, expert, pairs, columns, pair_count, n, HAS_BIAS)


def multiply_triton(
    a: torch.Tensor,
    a_scale: torch.Tensor | None,
    weight: torch.Tensor,
    weight_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
    routing: Routing,
) -> torch.Tensor:
    """A `layers.kernels.moe.grouped.GroupedMultiply` on a GPU; a and weight of one float dtype."""
    tiles = choose_tiles(routing, a.element_size())
    return launch(_multiply, tiles, a, None, weight, None, bias, routing)
