"""Dynamic int8 quantisation of activations, one scale for each 128 values of a token.

The rule is that of `layers.kernels.per_token_int8_quant`, a group in place of a row; the last group
of a row may be shorter. A group with a NaN or Inf has a NaN or Inf scale and codes 0.

sgl_kernel's `sgl_per_token_group_quant_int8` is no backend here: it truncates towards zero in place
of rounding, and its maximum drops NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.per_token_int8_quant import quantise_torch as quantise_rows
from layers.sharding import ceil_div

GROUP = 128


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float -> codes (M, K) int8, scales (M, ceil(K / 128)) float32, both contiguous."""
    rows, columns = x.shape
    groups = ceil_div(columns, GROUP)
    # Zeros at the end change no group's maximum.
    padded = torch.nn.functional.pad(x, (0, groups * GROUP - columns))
    codes, scales = quantise_rows(padded.reshape(rows * groups, GROUP))
    return codes.view(rows, groups * GROUP)[:, :columns].contiguous(), scales.view(rows, groups)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.per_token_group_int8_quant_triton import quantise_triton

    return quantise_triton


PER_TOKEN_GROUP_INT8_QUANT = Operation(
    "per_token_group_int8_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: quantise_torch),
    ),
)
