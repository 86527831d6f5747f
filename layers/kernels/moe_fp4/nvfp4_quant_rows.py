"""NVFP4 quantisation of a MoE layer's rows, with block scales in the order of rows.

The rule is that of `layers.kernels.fp4.nvfp4_quant`. Scales are not swizzled: rows are gathered by
expert before they are multiplied. Tokens share one `input_scale`; pairs take that of their expert.
"""

from __future__ import annotations

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.nvfp4_quant import quantise_rows
from layers.kernels.fp4.scales import NVFP4
from layers.kernels.moe.routing import Routing


def quantise_by_expert_torch(
    h: torch.Tensor, routing: Routing, input_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule above on any device.

    Args:
        h: (T · K, I) float; I is a multiple of 16.
        routing: the pairs' experts; those of other ranks take any scale.
        input_scale: (experts of this rank, 1) float32, positive.

    Returns:
        packed codes (T · K, I / 2) uint8, E4M3 scales (T · K, I / 16) uint8.
    """
    return quantise_rows(h, input_scale[routing.ids.flatten().clamp(min=0)])


_NEEDS = Needs(k_multiple=NVFP4.group)
NVFP4_QUANT_ROWS = Operation("nvfp4_quant_rows", (Backend("torch", _NEEDS, lambda: quantise_rows),))
NVFP4_QUANT_BY_EXPERT = Operation(
    "nvfp4_quant_by_expert", (Backend("torch", _NEEDS, lambda: quantise_by_expert_torch),)
)
