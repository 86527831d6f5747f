"""The gated delta rule of one token a request, as it is defined; by torch, in float32.

For each value head, with a state S (Dk, Dv):

    S <- exp(g) · S;  u = β · (v - Sᵀk);  S <- S + k uᵀ;  o = Sᵀq · Dk^-1/2
"""

from __future__ import annotations

import torch

from layers.attention.gdn.metadata import GDNMetadata
from layers.kernels.gdn.gates import Gates
from layers.kernels.gdn.heads import Heads

L2_EPSILON = 1e-6


def l2_normalise(x: torch.Tensor) -> torch.Tensor:
    """x · rsqrt(Σx² + 1e-6) over the last dimension, in float32."""
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPSILON)


def for_value_heads(x: torch.Tensor, heads: Heads) -> torch.Tensor:
    """(T, Hk, Dk) -> (T, Hv, Dk): each value head's query or key."""
    return x.repeat_interleave(heads.group, dim=1)


def decay(state: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """exp(g) · state: state (…, Dk, Dv), g (…)."""
    return g.exp()[..., None, None] * state


def prepare(mixed: torch.Tensor, heads: Heads) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """mixed (T, C) -> q, k (T, Hv, Dk), normalised, and v (T, Hv, Dv), all float32."""
    q, k, v = heads.split(mixed)
    q, k = (for_value_heads(l2_normalise(x), heads) for x in (q, k))
    return q, k, v.float()


def step(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token: state (B, Hv, Dk, Dv), q, k (B, Hv, Dk), v (B, Hv, Dv), g, β (B, Hv).

    Returns:
        The output before the scale, (B, Hv, Dv), and the new state.
    """
    state = decay(state, g)
    update = beta[..., None] * (v - torch.einsum("bhkv,bhk->bhv", state, k))
    state = state + torch.einsum("bhk,bhv->bhkv", k, update)
    return torch.einsum("bhkv,bhk->bhv", state, q), state


def decode(
    mixed: torch.Tensor, gates: Gates, ssm: torch.Tensor, metadata: GDNMetadata, heads: Heads
) -> torch.Tensor:
    """One token a request, whose states are replaced.

    Args:
        mixed: (B, C) as the convolution gives it.
        gates: of B tokens.
        ssm: (slots, Hv, Dk, Dv) float32.
        metadata: of mode "decode".
        heads: sizes of this rank.

    Returns:
        (B, Hv, Dv) of mixed's dtype.
    """
    slots = metadata.state_indices.long()
    g, beta = gates.values()
    out, state = step(ssm[slots], *prepare(mixed, heads), g, beta)
    ssm.index_copy_(0, slots, state)
    return (out * heads.scale).to(mixed.dtype)
