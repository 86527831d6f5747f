"""Faults of e4m3 activation codes: another rounding, another range, another element format.

Each takes x (M, K) and the layer's quantiser, x -> (codes e4m3 (M, K), scales).
"""

from __future__ import annotations

from typing import Any

import torch

from testing.strength.edits.activations import spread

E4M3 = torch.float8_e4m3fn


def quotient(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(M, K) float32: what is rounded to a code."""
    return x.float() / spread(scales, x.shape[1])


def _floats(scales: torch.Tensor) -> torch.Tensor:
    """Scales as they are, or the powers of two that bytes stand for."""
    return torch.exp2(scales.float() - 127) if scales.dtype == torch.uint8 else scales


def _stepped(codes: torch.Tensor, where: torch.Tensor, step: int) -> torch.Tensor:
    """Codes whose magnitude is one step larger or smaller where asked."""
    moved = codes.view(torch.uint8) + step
    return torch.where(where, moved, codes.view(torch.uint8)).view(E4M3)


def truncate(x: torch.Tensor, original: Any) -> Any:
    """Towards zero."""
    codes, scales = original(x)
    beyond = codes.float().abs() > quotient(x, _floats(scales)).abs()
    return _stepped(codes, beyond, -1), scales


def half_away_from_zero(x: torch.Tensor, original: Any) -> Any:
    """As a rounding that adds half a step does."""
    codes, scales = original(x)
    size = quotient(x, _floats(scales)).abs()
    above = _stepped(codes, codes.float().abs() < 448, 1).float().abs()
    tied = (size == (codes.float().abs() + above) / 2) & (above > codes.float().abs())
    return _stepped(codes, tied, 1), scales


def two_bits(x: torch.Tensor, original: Any) -> Any:
    """Through e5m2, which has a bit less."""
    codes, scales = original(x)
    narrow = codes.float().to(torch.float8_e5m2).float()
    return narrow.clamp(-448, 448).to(E4M3), scales


def up_to_240(x: torch.Tensor, original: Any) -> Any:
    """s = amax/240, the range of e4m3fnuz: a bit of range lost, and another grid."""
    scales = original(x)[1]
    wider = scales * (448 / 240)
    return quotient(x, wider).clamp(-448, 448).to(E4M3), wider


def not_saturated(x: torch.Tensor, original: Any) -> Any:
    """Beyond ±464 the code is NaN, as casts without a clamp have it."""
    codes, scales = original(x)
    beyond = quotient(x, scales).abs() >= 464
    return torch.where(beyond, 0x7F, codes.view(torch.uint8)).view(E4M3), scales


def smallest_codes_flushed(x: torch.Tensor, original: Any) -> Any:
    """Subnormal codes, below 2^-6, become 0."""
    codes, scales = original(x)
    kept = torch.where(codes.float().abs() < 2.0**-6, 0, codes.view(torch.uint8))
    return kept.view(E4M3), scales


def scale_in_bf16(x: torch.Tensor, original: Any) -> Any:
    """The scale that dequantises, rounded to eight bits."""
    codes, scales = original(x)
    return codes, scales.bfloat16().float()


def scale_at_least_a_two_hundred_thousandth(x: torch.Tensor, original: Any) -> Any:
    """1/(448·512), the floor of other libraries."""
    codes, scales = original(x)
    raised = scales.clamp(min=1 / (448 * 512))
    lowered = quotient(x, raised).clamp(-448, 448).to(E4M3)
    finite = spread(scales, x.shape[1]).isfinite()
    same = torch.where(finite, lowered.view(torch.uint8), codes.view(torch.uint8))
    return same.view(E4M3), raised
