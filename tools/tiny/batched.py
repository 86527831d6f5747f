"""The reference models' experts all at once, for training on a GPU.

The reference picks each expert's tokens, which waits for the GPU once an expert. Here every expert
multiplies every token, and weights of 0 leave out what was not chosen: the same sums, many times
the products, and no waiting.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch.nn.functional import silu

from testing.oracles.models import experts, gpt_oss


def batch_experts(model: torch.nn.Module) -> None:
    """Replaces the forward of each feed-forward part with experts; parameters stay as they are."""
    for module in model.modules():
        if isinstance(module, experts.SparseMLP):
            module.__dict__["forward"] = MethodType(_deepseek, module)
        elif isinstance(module, gpt_oss.SparseMLP):
            module.__dict__["forward"] = MethodType(_gpt_oss, module)


def restore_experts(model: torch.nn.Module) -> None:
    """Gives each such part the reference's forward again."""
    for module in model.modules():
        module.__dict__.pop("forward", None)


def _by_expert(routed: tuple[torch.Tensor, torch.Tensor], experts: int) -> torch.Tensor:
    """Weights and choice, (tokens, k) → (experts, tokens, 1), 0 where an expert was not chosen."""
    weights, chosen = routed
    spread = weights.new_zeros(len(weights), experts).scatter(1, chosen, weights)
    return spread.t()[..., None]


def _deepseek(self: Any, x: torch.Tensor) -> torch.Tensor:
    rows = x.flatten(0, -2)
    shares = _by_expert(self.gate(rows), len(self.experts))
    gate, up, down = (
        torch.stack([getattr(expert, name).weight for expert in self.experts])
        for name in ("gate_proj", "up_proj", "down_proj")
    )
    h = silu(rows @ gate.mT) * (rows @ up.mT)
    out = (h @ down.mT * shares).sum(0)
    if self.shared:
        out = out + self.shared_experts(rows)
    return out.view_as(x)


def _gpt_oss(self: Any, x: torch.Tensor) -> torch.Tensor:
    rows, stored = x.flatten(0, -2), self.experts
    shares = _by_expert(self.router(rows), self.count)
    both = rows @ stored.gate_up_proj + stored.gate_up_proj_bias[:, None]
    gate = both[..., 0::2].clamp(max=stored.limit)
    up = both[..., 1::2].clamp(-stored.limit, stored.limit)
    h = gate * torch.sigmoid(gpt_oss.ALPHA * gate) * (up + 1)
    out = h @ stored.down_proj + stored.down_proj_bias[:, None]
    return (out * shares).sum(0).view_as(x)
