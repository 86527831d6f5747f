"""The two formats of 4-bit blocks: how many columns share a scale, and how its byte is read.

| format | block | scale byte |
| --- | --- | --- |
| NVFP4 | 16 | E4M3, without its sign; a second scale for the whole tensor lies outside |
| MXFP4 | 32 | E8M0, 2^(b - 127), 255 is NaN |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

E4M3_MAX = 448.0
E4M3_NAN = 0x7F
E8M0_NAN = 0xFF


@dataclass(frozen=True)
class BlockFormat:
    """One format of E2M1 values with a scale byte for every `group` columns of a row.

    Attributes:
        name: for messages.
        group: columns that share a scale.
        decode: scale bytes uint8 of any shape -> float32, exact, NaN kept.
    """

    name: str
    group: int
    decode: Callable[[torch.Tensor], torch.Tensor]


def encode_e4m3(x: torch.Tensor) -> torch.Tensor:
    """x float32 -> E4M3 bytes uint8: half to even, saturating at ±448; NaN gives 0x7F.

    torch casts Inf and values above 464 to NaN before 2.13, to ±448 since: they are clamped first.
    """
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def decode_e4m3(scales: torch.Tensor) -> torch.Tensor:
    """E4M3 bytes uint8 -> float32, exact; 0x7F gives NaN."""
    return scales.view(torch.float8_e4m3fn).float()


def encode_e8m0_floor(amax: torch.Tensor, largest_exponent: int) -> torch.Tensor:
    """The scale under which `amax` has the exponent of the element format's largest value.

        2^(⌊log2 amax⌋ - largest_exponent), but at least 2^-127

    Args:
        amax: float32, not negative, of any shape.
        largest_exponent: of the element format: 2 for E2M1.

    Returns:
        E8M0 bytes uint8. NaN and Inf give 255 (NaN); zero and subnormals the smallest scale.
    """
    exponent = amax.view(torch.int32) >> 23
    finite = (exponent - largest_exponent).clamp(min=0)
    return torch.where(exponent == 255, E8M0_NAN, finite).to(torch.uint8)


def decode_e8m0(scales: torch.Tensor) -> torch.Tensor:
    """E8M0 bytes uint8 -> float32, exact; 255 gives NaN."""
    bits = scales.to(torch.int32) << 23
    # 2^-127 is subnormal in float32; 255 has to become NaN, where its exponent alone is Inf.
    bits = torch.where(scales == 0, 0x00400000, bits)
    return torch.where(scales == E8M0_NAN, 0x7FC00000, bits).to(torch.int32).view(torch.float32)


NVFP4 = BlockFormat("nvfp4", 16, decode_e4m3)
MXFP4 = BlockFormat("mxfp4", 32, decode_e8m0)
