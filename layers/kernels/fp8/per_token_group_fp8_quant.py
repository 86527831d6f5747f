"""Dynamic e4m3 quantisation of activations, one scale for each 128 values of a token.

The rule is that of `layers.kernels.fp8.per_token_fp8_quant`, a group in place of a row; the last
group of a row may be shorter. Scales lie group by group, all rows of the first group first, as the
matmuls on tensor cores read them.

sgl_kernel's `sgl_per_token_group_quant_8bit` is no backend here: its maximum drops a NaN, whose
code is then -448, it multiplies by the rounded 448 / amax, and it takes neither K that is no
multiple of 128 nor rows apart from each other (read in the sources of 0.4.2 and 0.4.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.per_token_fp8_quant import quantise_torch as quantise_rows
from layers.sharding import ceil_div

GROUP = 128


def group_major(scales: torch.Tensor) -> torch.Tensor:
    """Scales (M, groups) with strides (1, M): copied only if they lie otherwise."""
    packed = scales.stride(0) == 1 and scales.stride(1) == scales.shape[0]
    return scales if packed else scales.t().contiguous().t()


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float -> codes (M, K) float8_e4m3fn contiguous, scales (M, ceil(K / 128)) float32.

    The scales' strides are (1, M).
    """
    rows, columns = x.shape
    groups = ceil_div(columns, GROUP)
    # Zeros at the end change no group's maximum.
    padded = torch.nn.functional.pad(x, (0, groups * GROUP - columns))
    codes, scales = quantise_rows(padded.reshape(rows * groups, GROUP))
    codes = codes.view(rows, groups * GROUP)[:, :columns].contiguous()
    return codes, scales.view(rows, groups).t().contiguous().t()


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.per_token_group_fp8_quant_triton import quantise_triton

    return quantise_triton


PER_TOKEN_GROUP_FP8_QUANT = Operation(
    "per_token_group_fp8_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: quantise_torch),
    ),
)
