# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""What the grouped matmuls in Triton share: tiles, the rows of a block, and the launch.

A program multiplies one block of pairs, all of one expert, with a tile of the expert's rows. How
many blocks there are follows from the number of pairs alone, so that nothing waits for the device;
a block that stays empty ends at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from layers.kernels.moe.routing import Routing
from layers.kernels.triton_matmul import tile_of

# Arguments of the kernels that follow from the number of tokens: one compiled kernel serves all.
NOT_SPECIALISED = ("blocks", "pair_count", "per_row", "a_scale_stride", "a_scale_step")


@dataclass(frozen=True)
class Tiles:
    """Pairs and columns of an output tile, K of a step, and how a GPU works on it."""

    rows: int
    columns: int
    k: int
    warps: int
    stages: int


def choose_tiles(routing: Routing, itemsize: int, block_k: int | None = None) -> Tiles:
    """Tiles for operands of `itemsize` bytes; at most 128 KiB of shared memory.

    Few pairs an expert need flat tiles, so that little of a block is padding.
    """
    k = block_k or 128 // itemsize
    pairs = routing.pairs // routing.experts
    if pairs <= 16:
        return Tiles(rows=16, columns=64, k=k, warps=4, stages=4)
    if pairs <= 64:
        return Tiles(rows=64, columns=64, k=k, warps=4, stages=4)
    return Tiles(rows=128, columns=128, k=k, warps=8, stages=3)


def launch(
    kernel: Any,
    tiles: Tiles,
    a: torch.Tensor,
    a_scale: torch.Tensor | None,
    weight: torch.Tensor,
    weight_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
    routing: Routing,
    **constants: Any,
) -> torch.Tensor:
    """Runs a kernel over all blocks and tiles, as `layers.kernels.moe.grouped` describes it.

    Checks nothing, as it runs in every forward: all on one GPU, the last dimensions of a and weight
    dense, weight_scale and bias contiguous.
    """
    n, k = weight.shape[1:]
    out = routing.new_rows(n, a.device)
    blocks = routing.blocks(tiles.rows)
    count = blocks.experts.shape[0]
    unused = weight
    grid = (count * triton.cdiv(n, tiles.columns),)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(a):
        kernel[grid](
            *(a, weight),
            *(unused if t is None else t for t in (a_scale, weight_scale, bias)),
            *(out, blocks.pairs, blocks.experts),
            *(count, routing.pairs, routing.pairs_per_row(a)),
            *(n, k, a.stride(0), weight.stride(0), weight.stride(1)),
            *((0, 0) if a_scale is None else a_scale.stride()),
            HAS_BIAS=bias is not None,
            BLOCK_M=tiles.rows,
            BLOCK_N=tiles.columns,
            BLOCK_K=tiles.k,
            num_warps=tiles.warps,
            num_stages=tiles.stages,
            **constants,
        )
    return out


@triton.jit
def block_of(pairs_ptr, experts_ptr, blocks, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """A program's expert (-1: nothing to do), its pairs (BLOCK_M,), and its columns (BLOCK_N,)."""
    tile_row, tile_column = tile_of(tl.program_id(0), blocks * BLOCK_M, n, BLOCK_M, BLOCK_N, 8)
    expert = tl.load(experts_ptr + tile_row).to(tl.int64)
    pairs = tl.load(pairs_ptr + tile_row * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_column * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    return expert, pairs, columns


@triton.jit
def store_pairs(
    out, bias_ptr, out_ptr, expert, pairs, columns, pair_count, n, HAS_BIAS: tl.constexpr
):
    """Adds the expert's bias in float32 and stores the tile's rows where their pairs lie."""
    column_inside = columns[None, :] < n
    if HAS_BIAS:
        bias_ptrs = bias_ptr + expert * n + columns[None, :]
        out += tl.load(bias_ptrs, mask=column_inside, other=0.0).to(tl.float32)
    out_ptrs = out_ptr + pairs[:, None] * n + columns[None, :]
    tl.store(out_ptrs, out, mask=(pairs[:, None] < pair_count) & column_inside)
