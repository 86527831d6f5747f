# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""What the 8-bit matmuls in Triton share: tiles of the output, their order, and the launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

BLOCK_K = 128


@dataclass(frozen=True)
class Tiles:
    """Rows and columns of an output tile, and how a GPU works on it."""

    rows: int
    columns: int
    warps: int
    stages: int


def choose_tiles(m: int) -> Tiles:
    """Tiles for 8-bit operands with 128 of K a step: at most 96 KiB of shared memory.

    Few rows need narrow tiles, so that enough programs share the reading of the weight.
    """
    if m <= 16:
        return Tiles(rows=16, columns=32, warps=4, stages=4)
    if m <= 64:
        return Tiles(rows=64, columns=64, warps=4, stages=4)
    return Tiles(rows=128, columns=128, warps=8, stages=3)


def launch(
    kernel: Any,
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """Runs a kernel over all tiles: a (M, K) and b (K, N) -> (M, N).

    Checks nothing, as it runs in every forward: M > 0, all on one GPU, a.stride(1) == 1 and
    b.stride(0) == 1, scales and bias contiguous. Whoever keeps the weight sees to that once.
    """
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=out_dtype, device=a.device)
    tiles = choose_tiles(m)
    grid = (triton.cdiv(m, tiles.rows) * triton.cdiv(n, tiles.columns),)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(a):
        kernel[grid](
            *(a, b, a_scale, b_scale, a_scale if bias is None else bias, out),
            *(m, n, k, a.stride(0), b.stride(1)),
            HAS_BIAS=bias is not None,
            BLOCK_M=tiles.rows,
            BLOCK_N=tiles.columns,
            BLOCK_K=BLOCK_K,
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
    return out


@triton.jit
def tile_of(program, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """A program's tile (row, column): down GROUP tiles, then right, so that reads are shared."""
    tile_rows = tl.cdiv(m, BLOCK_M)
    in_group = GROUP * tl.cdiv(n, BLOCK_N)
    first = program // in_group * GROUP
    height = tl.minimum(tile_rows - first, GROUP)
    within = program % in_group
    return first + within % height, within // height


@triton.jit
def store_tile(out, bias_ptr, out_ptr, rows, columns, m, n, HAS_BIAS: tl.constexpr):
    """Adds the bias to a tile in float32, rounds it once and stores what lies inside (M, N)."""
    column_inside = columns[None, :] < n
    if HAS_BIAS:
        out += tl.load(bias_ptr + columns[None, :], mask=column_inside, other=0.0).to(tl.float32)
    out_ptrs = out_ptr + rows[:, None] * n + columns[None, :]
    inside = (rows[:, None] < m) & column_inside
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=inside)
