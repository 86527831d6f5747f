"""E2M1, the four-bit float: ±{0, 0.5, 1, 1.5, 2, 3, 4, 6}, without NaN or Inf.

A code's low three bits are its magnitude, in order; bit 3 is the sign. Two codes share a byte: the
low nibble holds the even column.
Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3.
"""

from __future__ import annotations

import math
from functools import cache

import torch

E2M1_MAX = 6.0

# Halves between neighbouring magnitudes. Half to even: at the 1st, 3rd, … the lower code is even
# and keeps the tie; at the others the tie goes up, so that boundary lies just below the half.
_HALVES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


@cache
def _boundaries(device: torch.device) -> torch.Tensor:
    halves = torch.tensor(_HALVES, dtype=torch.float32, device=device)
    below = torch.nextafter(halves, torch.tensor(-math.inf, device=device))
    ties_go_up = torch.arange(len(_HALVES), device=device) % 2 == 1
    return torch.where(ties_go_up, below, halves)


@cache
def _pairs(device: torch.device) -> torch.Tensor:
    """(256, 2) float32: what each byte holds, the even column first."""
    magnitudes = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=device)
    values = torch.cat([magnitudes, -magnitudes])
    byte = torch.arange(256, device=device)
    return torch.stack([values[byte & 0xF], values[byte >> 4]], dim=1)


def encode(x: torch.Tensor) -> torch.Tensor:
    """x float32 of any shape -> codes uint8: half to even, saturating at ±6; NaN gives ±6."""
    codes = torch.bucketize(x.abs(), _boundaries(x.device), out_int32=True).to(torch.uint8)
    return codes | (torch.signbit(x).to(torch.uint8) << 3)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Codes (..., K) uint8 -> bytes (..., K / 2) uint8; K is even."""
    return codes[..., ::2] | (codes[..., 1::2] << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Bytes (..., K / 2) uint8 -> codes (..., K) uint8."""
    return torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(-2)


def decode_packed(packed: torch.Tensor) -> torch.Tensor:
    """Bytes (..., K / 2) uint8 -> values (..., K) float32."""
    return _pairs(packed.device)[packed.int()].flatten(-2)
