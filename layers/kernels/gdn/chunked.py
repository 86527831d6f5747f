"""The gated delta rule over chunks of tokens, for prefill; by torch, in float32.

Unrolled over a chunk with the state S before it, the recurrence of `layers.kernels.gdn.recurrent`
is, with D[i, j] = exp(Σ_{j<l≤i} g_l) and d_i = exp(Σ_{l≤i} g_l),

    u_i + β_i Σ_{j<i} D[i, j] (k_i·k_j) u_j = β_i (v_i - d_i Sᵀk_i)
    o_i = Dk^-1/2 (d_i Sᵀq_i + Σ_{j≤i} D[i, j] (q_i·k_j) u_j)
    S  <- d_C S + Σ_j D[C, j] k_j u_jᵀ

so that one triangular system gives all updates u of the chunk: the WY form of arXiv:2406.06484.
"""

from __future__ import annotations

import torch

from layers.attention.gdn.metadata import GDNMetadata
from layers.kernels.gdn.gates import Gates
from layers.kernels.gdn.heads import Heads
from layers.kernels.gdn.recurrent import prepare

CHUNK = 64


def extend(
    mixed: torch.Tensor, gates: Gates, ssm: torch.Tensor, metadata: GDNMetadata, heads: Heads
) -> torch.Tensor:
    """The tokens of several requests, of any lengths; each one's state is replaced.

    Args:
        mixed: (T, C) as the convolution gives it.
        gates: of T tokens.
        ssm: (slots, Hv, Dk, Dv) float32.
        metadata: of mode "extend".
        heads: sizes of this rank.

    Returns:
        (T, Hv, Dv) of mixed's dtype.
    """
    # Heads first, as the matrix products run over tokens.
    tokens = [x.transpose(0, 1) for x in (*prepare(mixed, heads), *gates.values())]
    outputs = []
    start = 0
    for request, length in enumerate(metadata.query_lens):
        slot = ssm[metadata.slots[request]]
        state = initial_state(slot, metadata.has_initial[request])
        for first in range(start, start + length, CHUNK):
            size = min(CHUNK, start + length - first)
            out, state = run_chunk(state, *(x.narrow(1, first, size) for x in tokens))
            outputs.append(out)
        slot.copy_(state)
        start += length
    return (torch.cat(outputs, dim=1).transpose(0, 1) * heads.scale).to(mixed.dtype)


def initial_state(slot: torch.Tensor, has_initial: bool) -> torch.Tensor:
    """(Hv, Dk, Dv): where a request was left; zeros for a new one, whatever its slot holds."""
    return slot if has_initial else torch.zeros_like(slot)


def run_chunk(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One chunk of C tokens: q, k (H, C, Dk), v (H, C, Dv), g, β (H, C), state (H, Dk, Dv).

    Returns:
        Outputs before the scale, (H, C, Dv), and the state after the chunk.
    """
    between = decay_between(g)
    since_start = g.cumsum(1).exp()[..., None]
    left = beta[..., None] * v - beta[..., None] * since_start * (k @ state)
    update = solve(beta[..., None] * between * (k @ k.mT), left)
    out = since_start * (q @ state) + (between * (q @ k.mT)) @ update
    to_end = between[:, -1, :, None]
    return out, since_start[:, -1:] * state + (to_end * k).mT @ update


def decay_between(g: torch.Tensor) -> torch.Tensor:
    """D (H, C, C): exp(Σ_{j<l≤i} g_l) at [i, j], 0 above the diagonal; g (H, C) at most 0.

    Each sum is taken on its own: a difference of two sums from the start of the chunk would lose
    the small decays that follow a large one.
    """
    size = g.shape[1]
    ones = torch.ones(size, size, dtype=torch.bool, device=g.device)
    later = g[..., None].expand(-1, size, size).masked_fill(~ones.tril(-1), 0.0)
    return later.cumsum(1).masked_fill(~ones.tril(), -torch.inf).exp()


def solve(coupling: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """u of (1 + L) u = right, with L what lies below the diagonal of coupling (H, C, C)."""
    return torch.linalg.solve_triangular(coupling.tril(-1), right, upper=False, unitriangular=True)
