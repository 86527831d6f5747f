"""Attention over a paged KV cache, and its backends, the fastest first."""

from __future__ import annotations

import torch

from layers.kernels.attention.attend_torch import TorchAttention
from layers.kernels.attention.problem import AttentionNeeds
from layers.kernels.capability import Backend, Operation

HALVES = (torch.float16, torch.bfloat16)

ATTENTION = Operation(
    "attention",
    (Backend("torch", AttentionNeeds(dtypes=HALVES), lambda: TorchAttention),),
)
