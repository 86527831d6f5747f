"""Faults of E2M1 codes: how x is rounded to them, and how they are packed and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from testing.harness.linear import LoadedLinear
from testing.strength.edits.weights import codes_of

Encode = Callable[[torch.Tensor], torch.Tensor]
"""x float32 -> codes uint8."""

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _size(codes: torch.Tensor) -> torch.Tensor:
    return torch.tensor(_MAGNITUDES, device=codes.device)[(codes & 7).int()]


def truncated(original: Encode) -> Encode:
    """Towards zero."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where(_size(codes) > x.abs(), codes - 1, codes)

    return encode


def half_away(original: Encode) -> Encode:
    """A tie goes to the larger magnitude."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        above = torch.where((codes & 7) < 7, codes + 1, codes)
        tied = (x.abs() == (_size(codes) + _size(above)) / 2) & (above != codes)
        return torch.where(tied, above, codes)

    return encode


def halves_flushed(original: Encode) -> Encode:
    """The subnormal code, 0.5, becomes 0."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where((codes & 7) == 1, codes - 1, codes)

    return encode


def up_to_four(original: Encode) -> Encode:
    """Saturating at 4."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where((codes & 7) == 7, codes - 1, codes)

    return encode


def sign_lost(original: Encode) -> Encode:
    """Of the smallest codes, as an unsigned comparison loses it."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where((codes & 7) == 1, codes & 7, codes)

    return encode


def nibbles_swapped(loaded: LoadedLinear) -> None:
    """The even column in the high nibble."""
    codes = codes_of(loaded)
    codes.copy_((codes >> 4) | (codes << 4))


def read_as(old: int, new: int) -> Callable[[Any], Any]:
    """`decode_packed` that takes one magnitude's code for another's."""

    def wrap(original: Any) -> Any:
        def decode_packed(packed: torch.Tensor) -> Any:
            low, high = packed & 0xF, packed >> 4
            low = torch.where((low & 7) == old, (low & 8) | new, low)
            high = torch.where((high & 7) == old, (high & 8) | new, high)
            return original(low | (high << 4))

        return decode_packed

    return wrap
