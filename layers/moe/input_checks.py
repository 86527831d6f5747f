"""What a fused MoE layer refuses, at construction and at forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.kernels.moe.activation import ACTIVATIONS
from layers.parameter import FLOAT_DTYPES

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


def check_options(prefix: str, params_dtype: torch.dtype, activation: str) -> None:
    """Refuses a dtype or an activation that no runner has.

    Raises:
        ValueError: naming the value and those that are possible.
    """
    if params_dtype not in FLOAT_DTYPES:
        raise ValueError(
            f"layer '{prefix}': params_dtype is {params_dtype}, wanted torch.float16, "
            f"torch.bfloat16 or torch.float32 (the dtype of inputs and outputs)"
        )
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"layer '{prefix}': activation is {activation!r}, wanted one of "
            f"{', '.join(map(repr, ACTIVATIONS))}."
        )


def check_input(layer: FusedMoE, x: torch.Tensor, router_logits: torch.Tensor) -> None:
    """Refuses what the layer's forward cannot take.

    Raises:
        RuntimeError: weights not loaded and processed.
        ValueError: x or logits of another shape, dtype or device, or a gradient asked for.
    """
    hidden = layer.experts.hidden_size
    if not layer.is_ready:
        raise RuntimeError(
            f"layer '{layer.prefix}' is not ready for forward: load its weights, then call "
            f"layers.weights.process_weights_after_loading()."
        )
    x_fits = x.dim() == 2 and x.shape[1] == hidden and x.dtype == layer.params_dtype
    if not x_fits or x.device != layer.device:
        raise ValueError(
            f"layer '{layer.prefix}': x is {tuple(x.shape)} {x.dtype} on {x.device}, wanted "
            f"(tokens, {hidden}) {layer.params_dtype} on {layer.device}."
        )
    wanted = (x.shape[0], layer.num_experts)
    logits_fit = router_logits.shape == wanted and router_logits.is_floating_point()
    if not logits_fit or router_logits.device != layer.device:
        raise ValueError(
            f"layer '{layer.prefix}': router_logits is {tuple(router_logits.shape)} "
            f"{router_logits.dtype} on {router_logits.device}, wanted {wanted} of a float dtype on "
            f"{layer.device}."
        )
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"layer '{layer.prefix}': x requires a gradient, which the layer does not give: call "
            f"it under torch.no_grad(), or with x.detach()."
        )
