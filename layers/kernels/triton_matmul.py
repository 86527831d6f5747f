# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""How the Triton matmuls divide their output into tiles, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl


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


@triton.jit
def tile_of(program, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """A program's tile (row, column): down GROUP tiles, then right, so that reads are shared."""
    tile_rows = tl.cdiv(m, BLOCK_M)
    in_group = GROUP * tl.cdiv(n, BLOCK_N)
    first = program // in_group * GROUP
    height = tl.minimum(tile_rows - first, GROUP)
    within = program % in_group
    return first + within % height, within // height
