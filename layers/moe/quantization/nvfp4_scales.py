"""The activations' static scales of NVFP4 experts, which post-load divides by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


def shared_input_scale(layer: FusedMoE) -> torch.Tensor:
    """The largest `w13_input_scale` of all experts, (1,) float32, by which x is quantised.

    Raises:
        ValueError: one of them is not positive, or so small that its reciprocal is no float32.
    """
    return check_input_scale(layer, "w13_input_scale").max().reshape(1)


def check_input_scale(layer: FusedMoE, name: str) -> torch.Tensor:
    """The scales of that name, unless one cannot be divided by.

    Raises:
        ValueError: naming parameter and value.
    """
    scales = layer.get_parameter(name).data
    wrong = scales[~((scales > 0) & torch.isfinite(1 / scales))]
    if wrong.numel():
        full_name = getattr(layer.get_parameter(name), "full_name", name)
        raise ValueError(
            f"parameter '{full_name}' has {wrong.numel()} of {scales.numel()} scales such as "
            f"{wrong[0].item()}, wanted positive ones with a finite reciprocal: the activations' "
            f"amax / 2688. Calibrate the model again, or load the layer with a weight-only backend."
        )
    return scales
