"""What the layers of 4-bit blocks share: checks of shape and memory, and replaced parameters."""

from __future__ import annotations

import torch

from layers.kernels.capability import Problem
from layers.kernels.fp4.scales import BlockFormat
from layers.sharding import LinearLayout


def check_whole_blocks(layout: LinearLayout, block: BlockFormat) -> None:
    """Refuses a K that does not consist of whole blocks; ranks are checked by each parameter.

    Raises:
        ValueError: naming layer, K and block.
    """
    columns = layout.inputs.total
    if columns % block.group:
        raise ValueError(
            f"layer '{layout.name}': K is {columns}, wanted a multiple of {block.group}, the block "
            f"of {block.name}. Leave this layer unquantised, or pad the model's weight with zeros."
        )


def problem_of(layer: torch.nn.Module, dtype: torch.dtype) -> Problem:
    """What the layer asks of a matmul: its packed weight (N, K / 2), and a bias if it has one."""
    rows, half = layer.get_parameter("weight").shape
    has_bias = layer._parameters.get("bias") is not None
    return Problem(dtype=dtype, k=half * 2, n=rows, bias=has_bias)


def check_no_gradient(x: torch.Tensor) -> None:
    """Refuses an x that records a gradient.

    Raises:
        ValueError: saying how to call the layer.
    """
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "x requires a gradient, which 4-bit codes do not have: call the layer under "
            "torch.no_grad(), or with x.detach()."
        )


def check_input_scale(layer: torch.nn.Module, name: str = "input_scale") -> torch.Tensor:
    """The scales of that name, of shards or experts, unless one cannot be divided by.

    Raises:
        ValueError: naming parameter and value.
    """
    scales = layer.get_parameter(name).data
    wrong = scales[~((scales > 0) & torch.isfinite(1 / scales))]
    if wrong.numel():
        full_name = getattr(layer.get_parameter(name), "full_name", name)
        raise ValueError(
            f"parameter '{full_name}' is {wrong[0].item():g} ({wrong.numel()} of "
            f"{scales.numel()} scales are like this), wanted positive ones with a finite "
            f"reciprocal: the activations' amax / 2688. Calibrate the model again, or load the "
            f"layer with a weight-only backend."
        )
    return scales


def alpha_of(name: str, weight_scale_2: torch.Tensor, input_scale: torch.Tensor) -> torch.Tensor:
    """The factors of the products, weight_scale_2 · input_scale, float32; shapes broadcast.

    Raises:
        ValueError: one that overflows float32, or loses bits as a subnormal.
    """
    alpha = weight_scale_2 * input_scale
    lost = (alpha.abs() < torch.finfo(torch.float32).tiny) & (weight_scale_2 != 0)
    wrong = lost | ~torch.isfinite(alpha)
    if wrong.any():
        own, other = (t.expand_as(alpha)[wrong][0] for t in (weight_scale_2, input_scale))
        raise ValueError(
            f"parameter '{name}' is {own:g}, which times an input_scale of {other:g} is "
            f"{alpha[wrong][0]:g}, wanted a product that is a normal float32. Quantise the model "
            f"again, or load the layer with a weight-only backend."
        )
    return alpha
