"""Attention over a paged KV cache, and its backends, the fastest first."""

from __future__ import annotations

import torch

from layers.kernels.attention.attend_torch import TorchAttention
from layers.kernels.attention.problem import AttentionBackend, AttentionNeeds
from layers.kernels.capability import Backend, Operation

HALVES = (torch.float16, torch.bfloat16)


def _load_triton() -> type[AttentionBackend]:
    from layers.kernels.attention.attend_triton import TritonAttention

    return TritonAttention


def _load_flashinfer() -> type[AttentionBackend]:
    from layers.kernels.attention.attend_flashinfer import FlashInferAttention

    return FlashInferAttention


ATTENTION = Operation(
    "attention",
    (
        Backend(
            "flashinfer",
            # Its wrappers compile a kernel for each of these at run time. Their sinks come as a
            # variant without soft cap, and without a mask of one's own.
            AttentionNeeds(
                package="flashinfer",
                min_arch=(8, 0),
                dtypes=HALVES,
                head_dims=(64, 128, 256),
                same_head_dims=True,
                sinks_modes=("extend", "decode"),
                sinks_with_soft_cap=False,
            ),
            _load_flashinfer,
        ),
        Backend(
            "triton",
            AttentionNeeds(
                package="triton",
                min_arch=(8, 0),
                fp8_min_arch=(8, 9),
                dtypes=HALVES,
                max_head_dim=256,
            ),
            _load_triton,
        ),
        Backend("torch", AttentionNeeds(dtypes=HALVES), lambda: TorchAttention),
    ),
)
