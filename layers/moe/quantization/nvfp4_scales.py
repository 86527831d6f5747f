"""The activations' static scales of NVFP4 experts, which post-load divides by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.quantization.fp4_layer import check_input_scale

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


def shared_input_scale(layer: FusedMoE) -> torch.Tensor:
    """The largest `w13_input_scale` of all experts, (1,) float32, by which x is quantised.

    Raises:
        ValueError: one of them is not positive, or so small that its reciprocal is no float32.
    """
    return check_input_scale(layer, "w13_input_scale").max().reshape(1)
