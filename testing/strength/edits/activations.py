"""Faults of a layer's activation quantiser: each takes x and the original, x -> (codes, scales).

Those of `int8` alone stand beside its faults; these serve every format of eight bits.
"""

from __future__ import annotations

from typing import Any

import torch


def spread(scales: torch.Tensor, columns: int) -> torch.Tensor:
    """Scales (M, groups), one an element: (M, K)."""
    return scales.repeat_interleave(-(-columns // scales.shape[1]), 1)[:, :columns]


def small_x_flushed(x: torch.Tensor, original: Any) -> Any:
    """To zero."""
    return original(torch.where(x.abs() < 2.0**-20, 0, x))


def large_x_clamped(x: torch.Tensor, original: Any) -> Any:
    """To ±10000."""
    return original(torch.where(x.isfinite(), x.clamp(-10000, 10000), x))


def x_overwritten(x: torch.Tensor, original: Any) -> Any:
    """After it was quantised."""
    answer = original(x)
    x.mul_(0.5)
    return answer


def one_token_scale(x: torch.Tensor, original: Any) -> Any:
    """Row 5 of x."""
    codes, scales = original(x)
    if len(scales) > 5:
        scales[5] *= 1.01
    return codes, scales


def inf_swallowed(x: torch.Tensor, original: Any) -> Any:
    """Taken for zero."""
    return original(torch.where(x.isinf(), 0, x))


def nan_everywhere(x: torch.Tensor, original: Any) -> Any:
    """A sum over rows."""
    codes, scales = original(x)
    return codes, scales + scales.sum() * 0


def nan_swallowed(x: torch.Tensor, original: Any) -> Any:
    """NaN and Inf taken for zero or the largest number."""
    return original(x.nan_to_num(0.0))


def zero_rows_divide(x: torch.Tensor, original: Any) -> Any:
    """0/0."""
    codes, scales = original(x)
    return codes, torch.where(scales <= 2.0**-126, torch.nan, scales)


def strides_ignored(x: torch.Tensor, original: Any) -> Any:
    """x read as if contiguous."""
    return original(x.as_strided(x.shape, (x.shape[1], 1)))


def next_group_scale(x: torch.Tensor, original: Any) -> Any:
    """Off by one group."""
    codes, scales = original(x)
    return codes, scales.roll(1, 1)
