# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""What the int8 matmuls in Triton share: tiles of the output, their order, and the launch."""

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
    """Tiles for int8 operands with 128 of K a step: at most 96 KiB of shared memory.

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
    """Runs a kernel over all tiles: a (M, K) row-major, b (K, N) column-major -> (M, N); M > 0."""
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=out_dtype, device=a.device)
    tiles = choose_tiles(m)
    grid = (triton.cdiv(m, tiles.rows) * triton.cdiv(n, tiles.columns),)
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
