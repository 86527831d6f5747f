"""The order in which FP4 tensor-core kernels read block scales: tiles of 128 rows by 4 columns.

Rows are padded to a multiple of 128 and columns to one of 4 (Cp), with zeros. The byte of (r, c) is

    ((r // 128) · (Cp / 4) + c // 4) · 512 + (r % 32) · 16 + ((r % 128) // 32) · 4 + c % 4

Source: cuBLAS documentation, "1D Block Scaling Factors Layout"; the 128x4 layout of CUTLASS and
FlashInfer.
"""

from __future__ import annotations

import torch

from layers.sharding import ceil_div

TILE_ROWS = 128
TILE_COLUMNS = 4


def padded(rows: int, columns: int) -> tuple[int, int]:
    """Shape of the swizzled scales of (rows, columns)."""
    return (
        ceil_div(rows, TILE_ROWS) * TILE_ROWS,
        ceil_div(columns, TILE_COLUMNS) * TILE_COLUMNS,
    )


def swizzle(scales: torch.Tensor) -> torch.Tensor:
    """Row-major scales (..., R, C) uint8 -> swizzled (..., R128, C4) uint8, contiguous, new memory.

    The result's bytes lie in the order above; its shape is that of the padded scales, so a row of
    it is no row of scales.
    """
    *batch, rows, columns = scales.shape
    row_total, column_total = padded(rows, columns)
    edges = (0, column_total - columns, 0, row_total - rows)
    tiles = torch.nn.functional.pad(scales, edges).unflatten(-1, (-1, TILE_COLUMNS))
    # (..., row tile, row // 32, row % 32, column tile, column % 4)
    tiles = tiles.unflatten(-3, (-1, 4, 32))
    return tiles.movedim(-2, -4).transpose(-2, -3).reshape(*batch, row_total, column_total)


def unswizzle(swizzled: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Swizzled (..., R128, C4) uint8 -> row-major scales (..., rows, columns) uint8.

    Args:
        swizzled: contiguous, as `swizzle` makes it, or a multiple of 128 of its rows.
        rows, columns: what to keep; the rest is padding. Columns are those of scales, K / 16 or
            K / 32, not K.
    """
    *batch, row_total, column_total = swizzled.shape
    shape = (row_total // TILE_ROWS, column_total // TILE_COLUMNS, 32, 4, TILE_COLUMNS)
    tiles = swizzled.reshape(*batch, *shape).transpose(-2, -3).movedim(-4, -2)
    return tiles.reshape(*batch, row_total, column_total)[..., :rows, :columns]
