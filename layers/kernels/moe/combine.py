"""A token's output from those of its chosen experts: Σ_k weight[k] · y[k].

In float32, in the order of k, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation


def combine_torch(y: torch.Tensor, weights: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """y (T · K, H) float32, weights (T, K) float32 -> (T, H) of `dtype`."""
    tokens, choices = weights.shape
    by_choice = y.view(tokens, choices, -1)
    out = by_choice[:, 0] * weights[:, :1]
    for choice in range(1, choices):
        out += by_choice[:, choice] * weights[:, choice : choice + 1]
    return out.to(dtype)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.combine_triton import combine_triton

    return combine_triton


MOE_COMBINE = Operation(
    "moe_combine",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: combine_torch),
    ),
)
