"""What a gated delta layer refuses, at construction and at forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.attention.gdn.metadata import GDNMetadata
from layers.attention.gdn.state import GDNState
from layers.kernels.capability import BACKEND_NAMES
from layers.parameter import check_dtype
from layers.sharding import check_integers

if TYPE_CHECKING:
    from layers.attention.gdn.layer import GatedDeltaNet


def check_options(
    prefix: str, sizes: dict[str, int], params_dtype: torch.dtype, backend: str | None
) -> None:
    """Refuses what no backend has.

    Raises:
        ValueError: naming the value and what is possible.
    """
    check_dtype(prefix, params_dtype)
    check_integers(prefix, **sizes)
    wrong = [name for name, size in sizes.items() if size < (2 if name == "conv_width" else 1)]
    if wrong:
        raise ValueError(
            f"layer '{prefix}': {wrong[0]} is {sizes[wrong[0]]}, wanted at least "
            f"{2 if wrong[0] == 'conv_width' else 1}. Correct the model's configuration."
        )
    if sizes["num_v_heads"] % sizes["num_k_heads"]:
        raise ValueError(
            f"layer '{prefix}': num_v_heads {sizes['num_v_heads']} is not divisible by num_k_heads "
            f"{sizes['num_k_heads']}: each key head serves as many value heads. Correct the "
            f"model's configuration."
        )
    if backend not in (None, "auto", *BACKEND_NAMES):
        raise ValueError(
            f"layer '{prefix}': backend is {backend!r}, wanted 'auto' or one of "
            f"{', '.join(map(repr, BACKEND_NAMES))}."
        )


def check_input(
    layer: GatedDeltaNet,
    mixed: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    state: GDNState,
    metadata: GDNMetadata,
) -> None:
    """Refuses what the layer's forward cannot take.

    Raises:
        RuntimeError: weights not loaded and processed.
        ValueError: a tensor, a state or metadata that does not fit the layer or the others.
    """
    layer.check_ready()
    tokens, heads = metadata.num_tokens, layer.heads
    _check(layer, "mixed_qkv", mixed, (tokens, heads.conv_size), layer.params_dtype)
    # FlashInfer's decode kernel would round wider ones.
    is_flashinfer = metadata.mode == "decode" and layer.backends["gdn_decode"] == "flashinfer"
    for name, value in (("a", a), ("b", b)):
        dtype = layer.params_dtype if is_flashinfer else None
        _check(layer, name, value, (tokens, heads.num_v_heads), dtype)
    conv = (state.num_slots, heads.conv_size, layer.conv_width - 1)
    _check(layer, "state.conv", state.conv, conv, layer.params_dtype)
    ssm = (state.num_slots, heads.num_v_heads, heads.head_k_dim, heads.head_v_dim)
    _check(layer, "state.ssm", state.ssm, ssm, torch.float32)
    if not (state.conv.is_contiguous() and state.ssm.mT.is_contiguous()):
        raise ValueError(
            f"layer '{layer.prefix}': state.conv has strides {state.conv.stride()} and state.ssm "
            f"{state.ssm.stride()}, wanted the memory that GDNState makes. Copy values into its "
            f"tensors, and leave the tensors in place."
        )
    if metadata.state_indices.device != layer.device:
        raise ValueError(
            f"layer '{layer.prefix}': metadata is on {metadata.state_indices.device}, wanted "
            f"{layer.device}. Give device= where it is made."
        )
    if max(metadata.slots, default=0) >= state.num_slots:
        raise ValueError(
            f"layer '{layer.prefix}': state_indices has {max(metadata.slots)}, the state has "
            f"{state.num_slots} slots. Make a GDNState of more slots."
        )


def _check(
    layer: GatedDeltaNet,
    name: str,
    value: torch.Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype | None,
) -> None:
    is_tensor = isinstance(value, torch.Tensor)
    if (
        is_tensor
        and value.shape == shape
        and (value.dtype == dtype if dtype else value.is_floating_point())
        and value.device == layer.device
        and not (value.requires_grad and torch.is_grad_enabled())
    ):
        return
    wanted = f"{shape} of {dtype or 'a float dtype'} on {layer.device}"
    seen = f"a {type(value).__name__}"
    if is_tensor:
        seen = f"{tuple(value.shape)} {value.dtype} on {value.device}"
        if value.requires_grad:
            seen += ", which requires a gradient that the layer does not give"
    raise ValueError(f"layer '{layer.prefix}': {name} is {seen}, wanted {wanted}.")
