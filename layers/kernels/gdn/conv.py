"""The causal convolution before the gated delta rule, depthwise, with SiLU; by torch.

y[t] = silu(Σ_w weight[:, w] · x[t - W + 1 + w]) in float32, rounded once to x's dtype. What lies
before a request's first token comes from its state: the last W - 1 inputs, oldest first.
"""

from __future__ import annotations

import torch

from layers.attention.gdn.metadata import GDNMetadata


def convolve(
    x: torch.Tensor, weight: torch.Tensor, state: torch.Tensor, metadata: GDNMetadata
) -> torch.Tensor:
    """Convolves each request's tokens and leaves its last W - 1 inputs in the state.

    Args:
        x: (T, C) of params_dtype.
        weight: (C, W) of params_dtype.
        state: (slots, C, W - 1) of params_dtype; slots of other requests are left alone.
        metadata: of T tokens.

    Returns:
        (T, C) of x's dtype.
    """
    if metadata.mode == "decode":
        return _decode(x, weight, state, metadata.state_indices.long())
    outputs = []
    for request, part in enumerate(x.split(list(metadata.query_lens))):
        slot = state[metadata.slots[request]]
        past = past_inputs(slot, metadata.has_initial[request])
        inputs = torch.cat([past, part.T], dim=1)
        outputs.append(activate(windows(inputs, weight), x.dtype))
        slot.copy_(inputs[:, part.shape[0] :])
    return torch.cat(outputs)


def past_inputs(slot: torch.Tensor, has_initial: bool) -> torch.Tensor:
    """(C, W - 1): what a request saw last; zeros for a new one, whatever its slot holds."""
    return slot if has_initial else torch.zeros_like(slot)


def windows(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """(C, L + W - 1), weight (C, W) -> Σ_w weight[:, w] · inputs[:, t + w], (L, C) float32."""
    unfolded = inputs.float().unfold(1, weight.shape[1], 1)
    return (unfolded * weight.float()[:, None]).sum(-1).T


def activate(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """silu(x) rounded to dtype."""
    return torch.nn.functional.silu(x).to(dtype)


def _decode(
    x: torch.Tensor, weight: torch.Tensor, state: torch.Tensor, slots: torch.Tensor
) -> torch.Tensor:
    """As `convolve` for one token a request; nothing depends on values, for CUDA graphs."""
    inputs = torch.cat([state[slots], x[..., None]], dim=2)
    state.index_copy_(0, slots, inputs[..., 1:])
    return activate((inputs.float() * weight.float()).sum(-1), x.dtype)
