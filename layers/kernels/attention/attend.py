"""Attention over a paged KV cache, and its backends, the fastest first.

On an H200 FlashInfer's extend took 0.60 to 0.72 of our Triton kernel's time, its decode 0.9 to 1.4.
"""

from __future__ import annotations

import torch

from layers.kernels.attention.attend_torch import TorchAttention
from layers.kernels.attention.problem import AttentionBackend, AttentionNeeds, AttentionProblem
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

# The same, for what FlashInfer compiles another kernel for, which nobody timed beside ours.
UNTIMED = Operation(
    ATTENTION.name, tuple(sorted(ATTENTION.backends, key=lambda b: b.name == "flashinfer"))
)


def operation_for(problem: AttentionProblem) -> Operation:
    """The backends in the order in which one is chosen unasked.

    FlashInfer was timed here with head sizes 64 and 128, with and without a window. Its kernels for
    a soft cap, sinks or an fp8 cache were seen right without a window, that for a head size of 256
    never ran, and none was timed: they have to be asked for by name.
    """
    spec = problem.spec
    assert spec is not None
    is_timed = (
        spec.head_dim <= 128
        and not spec.logit_soft_cap
        and not spec.has_sinks
        and problem.kv_dtype is not torch.float8_e4m3fn
    )
    return ATTENTION if is_timed else UNTIMED
