"""e4m3 quantisation of pairs by the static scale of their expert.

The rule is that of `layers.kernels.fp8.static_fp8_quant`, with scale[expert of the pair].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.e4m3 import encode
from layers.kernels.moe.routing import Routing


def quantise_torch(
    h: torch.Tensor, routing: Routing, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the other backends are compared with.

    Args:
        h: (T · K, I) float.
        routing: the pairs' experts; those of other ranks take any scale.
        scale: (experts of this rank, 1) float32, above 0.

    Returns:
        codes (T · K, I) float8_e4m3fn; scales (T · K, 1) float32.
    """
    scales = scale[routing.ids.flatten().clamp(min=0)]
    values = h.float()
    return encode(torch.where(values.isinf(), torch.nan, values / scales)), scales


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.static_fp8_quant_by_expert_triton import quantise_triton

    return quantise_triton


STATIC_FP8_QUANT_BY_EXPERT = Operation(
    "static_fp8_quant_by_expert",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: quantise_torch),
    ),
)
