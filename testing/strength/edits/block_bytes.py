"""Faults of quantisers that give x block scales of one byte: x (M, K) -> (codes, bytes uint8).

The bytes of a token lie in a row, (M, blocks), or in the 128x4 order, (M128, C4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Change = Callable[[torch.Tensor, Any], Any]


def places_of(row: int, scales: torch.Tensor, swizzled: bool) -> torch.Tensor:
    """Offsets of one row's bytes."""
    columns = torch.arange(scales.shape[-1], device=scales.device)
    if not swizzled:
        return row * scales.shape[-1] + columns
    tiles = scales.shape[-1] // 4
    tile = (row // 128) * tiles + columns // 4
    return tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + columns % 4


def one_token_up(swizzled: bool) -> Change:
    """Row 5's scales one step larger."""

    def change(x: torch.Tensor, original: Any) -> Any:
        codes, scales = original(x)
        if len(x) > 5:
            scales.view(-1)[places_of(5, scales, swizzled)] += 1
        return codes, scales

    return change


def nan_everywhere(nan: int) -> Change:
    """One block of NaN makes all scales NaN."""

    def change(x: torch.Tensor, original: Any) -> Any:
        codes, scales = original(x)
        return codes, torch.where((scales == nan).any(), nan, scales).to(torch.uint8)

    return change


def zero_blocks_are_nan(nan: int) -> Change:
    """0/0 in a block of zeros."""

    def change(x: torch.Tensor, original: Any) -> Any:
        codes, scales = original(x)
        return codes, torch.where(scales == 0, nan, scales)

    return change


def next_block(x: torch.Tensor, original: Any) -> Any:
    """The scales of the neighbour along K, where they lie in rows."""
    codes, scales = original(x)
    return codes, scales.roll(1, 1)


def doubled(x: torch.Tensor, original: Any) -> Any:
    """Every scale a power of two larger, codes by the right one."""
    codes, scales = original(x)
    return codes, torch.where(scales < 254, scales + 1, scales)
