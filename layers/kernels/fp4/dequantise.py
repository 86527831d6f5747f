"""From 4-bit blocks to floats, a slice of rows at a time, so that no whole copy ever exists."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from layers.kernels.fp4.e2m1 import decode_packed
from layers.kernels.fp4.scales import BlockFormat
from layers.kernels.fp4.swizzle import TILE_ROWS, unswizzle

# Of one slice, in float32: 16 MiB.
SLICE_ELEMENTS = 2**22


def dequantise(packed: torch.Tensor, scales: torch.Tensor, block: BlockFormat) -> torch.Tensor:
    """Packed codes and row-major scales -> values, exact.

    Args:
        packed: (..., K / 2) uint8.
        scales: (..., K / group) uint8.
        block: the format.

    Returns:
        (..., K) float32.
    """
    values = decode_packed(packed).unflatten(-1, (-1, block.group))
    return (values * block.decode(scales).unsqueeze(-1)).flatten(-2)


def dequantise_swizzled(
    packed: torch.Tensor, swizzled: torch.Tensor, block: BlockFormat
) -> torch.Tensor:
    """`dequantise` of (..., R, K / 2) with scales (..., R128, C4) that `swizzle` made."""
    rows, columns = packed.shape[-2], packed.shape[-1] * 2 // block.group
    return dequantise(packed, unswizzle(swizzled, rows, columns), block)


def dequantise_slices(
    packed: torch.Tensor, swizzled: torch.Tensor, block: BlockFormat
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Slices of the rows of one matrix (R, K / 2), with their values (rows, K) float32."""
    rows, columns = packed.shape[0], packed.shape[1] * 2
    height = max(SLICE_ELEMENTS // columns // TILE_ROWS, 1) * TILE_ROWS
    for start in range(0, rows, height):
        part = slice(start, min(start + height, rows))
        # Tiles of 128 rows lie one after the other, so a slice of tiles is one of rows.
        yield part, dequantise_swizzled(packed[part], swizzled[start : start + height], block)


def multiply_slices(
    x: torch.Tensor, packed: torch.Tensor, swizzled: torch.Tensor, block: BlockFormat
) -> torch.Tensor:
    """x (M, K) float32 times the transpose of a weight (N, K) in blocks -> (M, N) float32."""
    out = torch.empty((x.shape[0], packed.shape[0]), dtype=torch.float32, device=x.device)
    for part, values in dequantise_slices(packed, swizzled, block):
        torch.mm(x, values.t(), out=out[:, part])
    return out
