"""Faults of block scales in the 128x4 order that FP4 kernels read.

Each wraps `swizzle`, (..., R, C) uint8 -> (..., R128, C4) uint8, as post-load and quantisers call
it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Swizzle = Callable[[torch.Tensor], torch.Tensor]


def not_swizzled(original: Swizzle) -> Swizzle:
    """Padded, in the order of rows."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        rows, columns = original(scales).shape[-2:]
        edges = (0, columns - scales.shape[-1], 0, rows - scales.shape[-2])
        return torch.nn.functional.pad(scales, edges).contiguous()

    return swizzle


def twice(original: Swizzle) -> Swizzle:
    """Swizzled again."""
    return lambda scales: original(original(scales))


def off_by_one(original: Swizzle) -> Swizzle:
    """All bytes one place further."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        right = original(scales)
        return right.flatten().roll(1).view(right.shape)

    return swizzle


def rows_in_fours(original: Swizzle) -> Swizzle:
    """r // 4 and r % 4 in the place of r % 32 and r // 32."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        right = original(scales)
        tiles = right.view(*right.shape[:-2], -1, 32, 4, 4)
        return tiles.transpose(-2, -3).reshape(right.shape)

    return swizzle


def tiles_by_column(original: Swizzle) -> Swizzle:
    """Tiles of 512 bytes down the columns first."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        right = original(scales)
        tiles = right.view(right.shape[-2] // 128, right.shape[-1] // 4, 512)
        return tiles.transpose(0, 1).reshape(right.shape)

    return swizzle


def next_block(original: Swizzle) -> Swizzle:
    """The scale of the neighbour along K."""
    return lambda scales: original(scales.roll(1, -1))


def next_row(original: Swizzle) -> Swizzle:
    """The scale of the neighbour along N."""
    return lambda scales: original(scales.roll(1, -2))


def padded_in_front(original: Swizzle) -> Swizzle:
    """The columns' padding before the columns."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        wide = original(scales).shape[-1]
        return original(torch.nn.functional.pad(scales, (wide - scales.shape[-1], 0)))

    return swizzle


def padded_above(original: Swizzle) -> Swizzle:
    """The rows' padding before the rows, whose last ones fall off."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        high = original(scales).shape[-2]
        missing = high - scales.shape[-2]
        return original(torch.nn.functional.pad(scales, (0, 0, missing, 0)))

    return swizzle


def last_columns_lost(original: Swizzle) -> Swizzle:
    """Columns that fill no tile of four are taken for padding."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        kept = scales.clone()
        kept[..., scales.shape[-1] // 4 * 4 :] = 0
        return original(kept)

    return swizzle


def last_rows_lost(original: Swizzle) -> Swizzle:
    """Rows that fill no tile of 128 are taken for padding."""

    def swizzle(scales: torch.Tensor) -> torch.Tensor:
        kept = scales.clone()
        kept[..., scales.shape[-2] // 128 * 128 :, :] = 0
        return original(kept)

    return swizzle


Unswizzle = Callable[[torch.Tensor, int, int], torch.Tensor]


def cropped_to_k(original: Unswizzle) -> Unswizzle:
    """Cropped to K columns in place of K / 16, which keeps the padding in each row of scales."""

    def unswizzle(swizzled: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        wide = original(swizzled, rows, swizzled.shape[-1])
        return wide.reshape(*wide.shape[:-2], -1)[..., : rows * columns].unflatten(
            -1, (rows, columns)
        )

    return unswizzle
