"""Faults of NVFP4's block scales: how the quantiser makes those of x, and how all are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from layers.kernels.fp4.scales import BlockFormat

Encode = Callable[[torch.Tensor], torch.Tensor]
"""Block scales float32, not negative -> E4M3 bytes."""


def _decoded(codes: torch.Tensor) -> torch.Tensor:
    return codes.view(torch.float8_e4m3fn).float()


def floored(original: Encode) -> Encode:
    """Rounded down."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where(_decoded(codes) > x, codes - 1, codes)

    return encode


def raised(original: Encode) -> Encode:
    """Rounded up."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where((_decoded(codes) < x) & (codes < 0x7E), codes + 1, codes)

    return encode


def powers_of_two(original: Encode) -> Encode:
    """E8M0's range of values: the three bits of mantissa dropped."""
    return lambda x: original(x) & 0x78


def at_least_normal(original: Encode) -> Encode:
    """Subnormal block scales, below 2^-6, flushed to zero."""

    def encode(x: torch.Tensor) -> torch.Tensor:
        codes = original(x)
        return torch.where(codes < 8, 0, codes)

    return encode


def half_size(original: BlockFormat) -> BlockFormat:
    """Bytes read as e4m3fnuz, whose exponent counts from one more."""
    return replace(original, decode=lambda scales: original.decode(scales) / 2)


def wider_exponent(original: BlockFormat) -> BlockFormat:
    """Bytes read as e5m2."""
    return replace(original, decode=lambda scales: scales.view(torch.float8_e5m2).float())


def subnormals_lost(original: BlockFormat) -> BlockFormat:
    """Bytes below 2^-6 read as zero."""

    def decode(scales: torch.Tensor) -> torch.Tensor:
        return torch.where(scales < 8, 0.0, original.decode(scales))

    return replace(original, decode=decode)


def rounded_before_alpha(multiply: Any, codes: Any, scales: Any, *rest: Any) -> Any:
    """The sum in bf16, then alpha."""
    weight, weight_scale, alpha, dtype, bias = rest
    plain = multiply(codes, scales, weight, weight_scale, torch.ones_like(alpha), dtype, None)
    out = plain.float() * alpha
    return (out if bias is None else out + bias).to(dtype)
