"""Grouped matmul of floats: `layers.kernels.moe.grouped` without scales."""

from __future__ import annotations

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.moe.grouped import expert_by_expert


def _multiply_one(
    a: torch.Tensor,
    weight: torch.Tensor,
    a_scale: torch.Tensor | None,
    weight_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    out: torch.Tensor = torch.mm(a.float(), weight.float().t())
    return out if bias is None else out.add_(bias)


multiply_torch = expert_by_expert(_multiply_one)

GROUPED_MM = Operation("grouped_mm", (Backend("torch", Needs(), lambda: multiply_torch),))
