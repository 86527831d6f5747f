"""Grouped matmul of floats: `layers.kernels.moe.grouped` without scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.grouped_mm_triton import multiply_triton

    return multiply_triton


GROUPED_MM = Operation(
    "grouped_mm",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
