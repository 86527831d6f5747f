"""Faults of what an int8 layer does: replacements of the two kernels that its method holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from testing.harness.linear import LoadedLinear

Plant = Callable[[LoadedLinear], None]


def around_quantiser(change: Callable[..., Any]) -> Plant:
    """Replace x → (codes, scales) by `change(x, original)`."""

    def plant(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original = method.quantise
        method.quantise = lambda x: change(x, original)

    return plant


def around_matmul(change: Callable[..., Any]) -> Plant:
    """Replace the matmul by `change(original, codes, weight, x_scale, w_scale, dtype, bias)`."""

    def plant(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original = method.multiply
        method.multiply = lambda *args: change(original, *args)

    return plant


def spread(scales: torch.Tensor, columns: int) -> torch.Tensor:
    """Scales (M, groups), one an element: (M, K)."""
    return scales.repeat_interleave(-(-columns // scales.shape[1]), 1)[:, :columns]


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


def drop_last_k_block(multiply: Any, codes: torch.Tensor, *rest: Any) -> Any:
    """K 384..511 of 512."""
    whole = codes.clone()
    whole[:, (codes.shape[1] - 1) // 128 * 128 :] = 0
    return multiply(whole, *rest)


def last_columns_unwritten(multiply: Any, *args: Any) -> Any:
    """A tail of N."""
    out = multiply(*args)
    poisoned = torch.empty_like(out)
    written = (out.shape[1] - 1) // 128 * 128
    poisoned[:, :written] = out[:, :written]
    return poisoned


def output_shared(loaded: LoadedLinear) -> None:
    """One buffer for each shape."""
    method: Any = loaded.layer.quant_method
    original = method.multiply
    buffers: dict[torch.Size, torch.Tensor] = {}

    def multiply(*args: Any) -> torch.Tensor:
        out: torch.Tensor = original(*args)
        return buffers.setdefault(out.shape, out).copy_(out)

    method.multiply = multiply


def one_column(multiply: Any, codes: Any, weight: Any, xs: Any, ws: Any, dtype: Any, b: Any) -> Any:
    """Column 44 of the second shard, before rounding."""
    out = multiply(codes, weight, xs, ws, torch.float32, b)
    out[:, 300] *= 1.01
    return out.to(dtype)


def round_twice(
    multiply: Any, codes: Any, weight: Any, xs: Any, ws: Any, dtype: Any, b: Any
) -> Any:
    """Through another 16-bit type."""
    narrow = torch.float16 if dtype == torch.bfloat16 else torch.bfloat16
    return multiply(codes, weight, xs, ws, narrow, b).to(dtype)


def sums_in_bf16(
    multiply: Any, codes: Any, weight: Any, xs: Any, ws: Any, dtype: Any, b: Any
) -> Any:
    """Two halves of K."""
    half = codes.shape[1] // 256 * 128
    first, second = codes.clone(), codes.clone()
    first[:, half:], second[:, :half] = 0, 0
    return multiply(first, weight, xs, ws, dtype, b) + multiply(second, weight, xs, ws, dtype, None)
