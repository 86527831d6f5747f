"""Faults of MX's power-of-two scales: how they are made for x, stored and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from layers.kernels.fp4.scales import BlockFormat
from testing.harness.linear import LoadedLinear
from testing.strength.edits.weights import scale_of


def ceiling_for_floor(original: Any) -> Any:
    """MXFP4's scale rounded up: 2^⌈log2(amax / 6)⌉."""

    def encode(amax: torch.Tensor, largest_exponent: int) -> torch.Tensor:
        codes: torch.Tensor = original(amax, largest_exponent)
        above = amax > 6 * torch.exp2(codes.float() - 127)
        return torch.where(above & (codes < 254), codes + 1, codes)

    return encode


def even_for_floor(original: Any) -> Any:
    """amax rounded to a power of two before the logarithm: up from 1.75 of one on."""
    return lambda amax, largest_exponent: original(amax * (4 / 3.5), largest_exponent)


def another_exponent(original: Any) -> Any:
    """The element format's largest exponent off by one."""
    return lambda amax, largest_exponent: original(amax, largest_exponent + 1)


def floor_for_ceiling(x: torch.Tensor, original: Any) -> Any:
    """MXFP8's scale by floor, 2^(⌊log2 amax⌋ - 8), which saturates."""
    codes, scales = original(x)
    blocks = x.float().view(*scales.shape, 32)
    exponent = torch.frexp(blocks.abs().amax(dim=-1))[1] - 1
    floored = (exponent - 8 + 127).clamp(0, 254).to(torch.uint8)
    floored = torch.where((scales == 255) | (scales == 0), scales, floored)
    scaled = blocks / torch.exp2(floored.float() - 127).unsqueeze(-1)
    again = scaled.clamp(-448, 448).view(codes.shape).to(codes.dtype)
    known = (floored != 255).repeat_interleave(32, -1)
    kept = torch.where(known, again.view(torch.uint8), codes.view(torch.uint8))
    return kept.view(codes.dtype), floored


def one_block_up(row: int, column: int) -> Callable[[LoadedLinear], None]:
    """One byte of scales in the order of rows, twice as large."""

    def edit(loaded: LoadedLinear) -> None:
        scale_of(loaded)[row, column] += 1

    return edit


def one_block_up_swizzled(row: int, column: int) -> Callable[[LoadedLinear], None]:
    """The same in the 128x4 order."""

    def edit(loaded: LoadedLinear) -> None:
        scales = scale_of(loaded)
        offset = ((row // 128) * (scales.shape[1] // 4) + column // 4) * 512
        offset += (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4
        scales.view(-1)[offset] += 1

    return edit


def bias_of_128(loaded: LoadedLinear) -> None:
    """The exponent counted from 128: every scale half as large."""
    scale = scale_of(loaded)
    scale.copy_(torch.where(scale > 0, scale - 1, scale))


def scales_of_next_rows(loaded: LoadedLinear) -> None:
    """In the order of rows."""
    scale = scale_of(loaded)
    scale.copy_(scale.roll(1, 0))


def scales_of_next_blocks(loaded: LoadedLinear) -> None:
    """In the order of rows."""
    scale = scale_of(loaded)
    scale.copy_(scale.roll(1, 1))


def read_as_e4m3(original: BlockFormat) -> BlockFormat:
    """NVFP4's kind of scale."""
    return replace(original, decode=lambda scales: scales.view(torch.float8_e4m3fn).float())


def blocks_of_sixteen(original: BlockFormat) -> BlockFormat:
    """Half of the scales serve all of K, 16 values each."""

    def decode(scales: torch.Tensor) -> torch.Tensor:
        half = scales.shape[-1] // 2
        return original.decode(scales[..., :half].repeat_interleave(2, -1))

    return replace(original, decode=decode)
