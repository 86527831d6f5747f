"""Dynamic e4m3 quantisation of activations, one scale for each 128 values of a token.

The rule is that of `layers.kernels.fp8.per_token_fp8_quant`, a group in place of a row; the last
group of a row may be shorter. How scales lie says `layers.kernels.fp8.group_scales`.

sgl_kernel's `sgl_per_token_group_quant_8bit` is no backend here: its maximum drops a NaN, whose
code is then -448, it multiplies by the rounded 448 / amax, and it takes neither K that is no
multiple of 128 nor rows apart from each other (read in the sources of 0.4.2 and 0.4.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.group_scales import GROUP, group_major
from layers.kernels.fp8.per_token_fp8_quant import quantise_torch as quantise_rows
from layers.sharding import ceil_div


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float -> codes (M, K) float8_e4m3fn contiguous, scales (M, ceil(K / 128)) float32.

    The scales' strides are (1, M rounded up to 4).
    """
    rows, columns = x.shape
    groups = ceil_div(columns, GROUP)
    # Zeros at the end change no group's maximum.
    padded = torch.nn.functional.pad(x, (0, groups * GROUP - columns))
    codes, scales = quantise_rows(padded.reshape(rows * groups, GROUP))
    codes = codes.view(rows, groups * GROUP)[:, :columns].contiguous()
    return codes, group_major(scales.view(rows, groups))


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
