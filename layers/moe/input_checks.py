"""What a fused MoE layer refuses, at construction and at forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.kernels.moe.activation import ACTIVATIONS
from layers.moe.topk import TopKConfig, check_bias
from layers.parameter import check_dtype
from layers.quantization.base import QuantizationConfig, check_config
from layers.sharding import check_integers

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


def check_options(
    prefix: str,
    num_experts: int,
    topk: TopKConfig,
    params_dtype: torch.dtype,
    quant_config: QuantizationConfig | None,
    activation: str,
    correction_bias: torch.Tensor | None,
) -> None:
    """Refuses what no runner or router has.

    Raises:
        ValueError: naming the value and those that are possible.
    """
    check_dtype(prefix, params_dtype)
    check_config(prefix, quant_config)
    check_integers(prefix, num_experts=num_experts)
    if not isinstance(topk, TopKConfig):
        raise ValueError(
            f"layer '{prefix}': topk is {topk!r}, wanted a layers.moe.topk.TopKConfig, such as "
            f"TopKConfig(top_k=2)."
        )
    topk.check_experts(num_experts, prefix)
    if correction_bias is not None:
        # Where it lies is asked after loading: the layer may move until then.
        device = getattr(correction_bias, "device", torch.device("cpu"))
        check_bias(correction_bias, num_experts, device, prefix)
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(
            f"layer '{prefix}': activation is {activation!r}, wanted one of "
            f"{', '.join(map(repr, ACTIVATIONS))}."
        )


def check_loaded_bias(
    bias: torch.Tensor | None, experts: int, device: torch.device, prefix: str
) -> None:
    """Refuses a correction bias that does not fit the loaded layer.

    Raises:
        ValueError: another device, or NaN or +Inf in it, by which every token would take the same
            experts; -Inf, which leaves an expert out, is fine.
    """
    if bias is None:
        return
    check_bias(bias, experts, device, prefix)
    wrong = (~(bias < torch.inf)).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f"layer '{prefix}': correction_bias is {float(bias[wrong[0]])} for {len(wrong)} "
            f"experts, expert {wrong[0]} among them, wanted finite numbers. Load the router's bias "
            f"before process_weights_after_loading(), or correct the checkpoint."
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
    for name, value in (("x", x), ("router_logits", router_logits)):
        if not isinstance(value, torch.Tensor):
            raise ValueError(
                f"layer '{layer.prefix}': {name} is a {type(value).__module__}."
                f"{type(value).__name__}, wanted a torch.Tensor on {layer.device}."
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
    if (x.requires_grad or router_logits.requires_grad) and torch.is_grad_enabled():
        name = "x" if x.requires_grad else "router_logits"
        raise ValueError(
            f"layer '{layer.prefix}': {name} requires a gradient, which the layer does not give: "
            f"call it under torch.no_grad(), or with {name}.detach()."
        )
