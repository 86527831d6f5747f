"""The 128x4 layout of block scales that FP4 and MX tensor-core kernels read.

NVIDIA cuBLAS, "1D Block Scaling Factors Layout", and PTX ISA, tcgen05.mma scale factor layout: rows
are padded to 128 and columns to 4, tiles of 128x4 follow one another along a row of tiles, each 512
bytes: in a tile, the four columns of a row lie together, and rows 32 apart are neighbours.
Padding is zero.
"""

import numpy as np

from testing.oracles.codecs.grid import Codes

TILE_ROWS = 128
TILE_COLUMNS = 4


def padded(rows: int, columns: int) -> tuple[int, int]:
    """(rows, columns) rounded up to whole tiles."""
    return -(-rows // TILE_ROWS) * TILE_ROWS, -(-columns // TILE_COLUMNS) * TILE_COLUMNS


def offset(r: int, c: int, columns: int) -> int:
    """Byte offset of scale (r, c) in a swizzled buffer; `columns` before padding."""
    tiles_in_a_row = padded(0, columns)[1] // TILE_COLUMNS
    tile = (r // TILE_ROWS) * tiles_in_a_row + c // TILE_COLUMNS
    return tile * 512 + (r % 32) * 16 + ((r % TILE_ROWS) // 32) * 4 + c % TILE_COLUMNS


def swizzle(scales: Codes) -> Codes:
    """scales (R, C) uint8 row-major → swizzled bytes, shaped (R to 128, C to 4), padding zero.

    The shape is only the buffer's size: its rows are no rows of scales.
    """
    rows, columns = padded(*scales.shape)
    wide: Codes = np.zeros((rows, columns), np.uint8)
    wide[: scales.shape[0], : scales.shape[1]] = scales
    tiles = wide.reshape(rows // TILE_ROWS, 4, 32, columns // TILE_COLUMNS, TILE_COLUMNS)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(rows, columns)


def unswizzle(swizzled: Codes, rows: int, columns: int) -> Codes:
    """Swizzled bytes of any shape → scales (rows, columns), rows = m and columns = k/16 or k/32.

    Raises ValueError if the buffer has another size than (rows, columns) padded to whole tiles.
    """
    wide = padded(rows, columns)
    if swizzled.size != wide[0] * wide[1]:
        raise ValueError(
            f"{swizzled.size} swizzled bytes, wanted {wide[0]}x{wide[1]} = {wide[0] * wide[1]} for "
            f"{rows} rows of {columns} scales: columns count scales (k/16 or k/32), not elements"
        )
    tiles = swizzled.reshape(wide[0] // TILE_ROWS, wide[1] // TILE_COLUMNS, 32, 4, TILE_COLUMNS)
    scales = tiles.transpose(0, 3, 2, 1, 4).reshape(wide)
    return np.ascontiguousarray(scales[:rows, :columns])
