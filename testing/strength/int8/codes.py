"""Faults of int8 activation codes: another rounding, another range, another scale."""

from __future__ import annotations

from typing import Any

import torch

from testing.harness.linear import LoadedLinear
from testing.strength.edits.activations import spread


def truncate(x: torch.Tensor, original: Any) -> Any:
    """Towards zero."""
    codes, scales = original(x)
    wide = spread(scales, x.shape[1])
    truncated = (x.float() / wide).trunc()
    return torch.where(wide.isfinite(), truncated, codes).to(torch.int8), scales


def wide_range(x: torch.Tensor, original: Any) -> Any:
    """s = amax/128."""
    codes, scales = original(x)
    factor = 127 / 128
    return torch.round(codes.float() / factor).clamp(-128, 127).to(torch.int8), scales * factor


def half_away_from_zero(x: torch.Tensor, original: Any) -> Any:
    """As C's round() does."""
    codes, scales = original(x)
    wide = spread(scales, x.shape[1])
    quotient = x.float() / wide
    away = quotient.abs().add(0.5).floor().clamp(max=127) * quotient.sign()
    return torch.where(wide.isfinite(), away, codes).to(torch.int8), scales


def scale_at_least_a_hundred_thousandth(x: torch.Tensor, original: Any) -> Any:
    """A floor that other libraries have."""
    codes, scales = original(x)
    raised = scales.clamp(min=1e-5)
    factor = spread(scales / raised, x.shape[1])
    lowered = torch.where(factor.isfinite(), codes * factor, codes)
    return lowered.round().to(torch.int8), raised


def minus_128_clamped(loaded: LoadedLinear) -> None:
    """As symmetric quantisers, which never make it, may assume."""
    loaded.layer.get_parameter("weight").data.clamp_(min=-127)
