"""What lies between the two matmuls of an expert or a dense MLP: h = act(gate) · up.

In float32, rounded once.

- silu: gate · sigmoid(gate) · up.
- swiglu_oai (gpt-oss): gate is clamped to at most 7 and up to ±7; h = (up + 1) · gate ·
  sigmoid(1.702 · gate).

A NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from layers.kernels.capability import Backend, Needs, Operation

SWIGLU_OAI_ALPHA = 1.702
SWIGLU_OAI_LIMIT = 7.0


def silu_torch(gate_up: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """gate_up (M, 2 I) of a float dtype, [gate | up] -> h (M, I) of `dtype`."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (F.silu(gate) * up).to(dtype)


def swiglu_oai_torch(gate_up: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """gate_up (M, 2 I) of a float dtype, [gate | up] -> h (M, I) of `dtype`."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    gate = gate.clamp(max=SWIGLU_OAI_LIMIT)
    up = up.clamp(-SWIGLU_OAI_LIMIT, SWIGLU_OAI_LIMIT)
    return ((up + 1) * (gate * torch.sigmoid(SWIGLU_OAI_ALPHA * gate))).to(dtype)


def _load_silu_triton() -> Callable[..., Any]:
    from layers.kernels.moe.activation_triton import silu_triton

    return silu_triton


def _load_swiglu_oai_triton() -> Callable[..., Any]:
    from layers.kernels.moe.activation_triton import swiglu_oai_triton

    return swiglu_oai_triton


SILU_AND_MUL = Operation(
    "silu_and_mul",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_silu_triton),
        Backend("torch", Needs(), lambda: silu_torch),
    ),
)
SWIGLU_OAI_AND_MUL = Operation(
    "swiglu_oai_and_mul",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_swiglu_oai_triton),
        Backend("torch", Needs(), lambda: swiglu_oai_torch),
    ),
)
ACTIVATIONS = {"silu": SILU_AND_MUL, "swiglu_oai": SWIGLU_OAI_AND_MUL}
