"""Backends of the router's top-k, chosen by what the router asks and the device.

Each takes and returns what `layers.moe.topk.select_experts` does: (router_logits, config,
correction_bias) -> TopKOutput, ties, NaN and shared experts included. There is an operation for
each kind of router, as kernels know some kinds and not others. A problem's K is the number of
experts and its N the number of choices; `bias` is whether the router has a correction bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation, Problem
from layers.moe.topk import TopKConfig, TopKOutput, best_of, check_shapes, select_experts


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.topk_triton import select_triton

    def select(
        router_logits: torch.Tensor,
        config: TopKConfig,
        correction_bias: torch.Tensor | None = None,
    ) -> TopKOutput:
        check_shapes(router_logits, config, correction_bias)
        weights, ids = select_triton(
            router_logits if router_logits.stride(1) == 1 else router_logits.contiguous(),
            correction_bias,
            top_k=config.top_k,
            is_sigmoid=config.scoring_func == "sigmoid",
            renormalize=config.renormalize,
            groups=config.num_expert_group or 0,
            chosen_groups=config.topk_group or 0,
            best_of=best_of(config, router_logits.shape[1], correction_bias is not None),
            factor=config.routed_scaling_factor,
            shared=config.num_shared_experts,
        )
        return TopKOutput(weights, ids)

    return select


def _load_sgl_softmax() -> Callable[..., Any]:
    from layers.moe.runners.sgl_kernel_topk import select_softmax

    return select_softmax


def _load_sgl_sigmoid() -> Callable[..., Any]:
    from layers.moe.runners.sgl_kernel_topk import select_sigmoid

    return select_sigmoid


@dataclass(frozen=True)
class _SglKernelNeeds(Needs):
    """Of sgl_kernel's top-k kernels; `layers.moe.runners.sgl_kernel_topk` says why."""

    package: str | None = "sgl_kernel"
    min_arch: tuple[int, int] | None = (8, 0)
    k_max: int | None = 256

    def unmet(self, device: torch.device, problem: Problem) -> str | None:
        """Why the backend cannot run, or None if it can."""
        if problem.k & (problem.k - 1):
            return f"needs a power of two of experts, there are {problem.k}"
        if problem.bias:
            return "needs a router without correction bias"
        return super().unmet(device, problem)


def _operation(name: str, *kernels: Backend) -> Operation:
    # A row of scores stays in one program's registers.
    triton = Backend("triton", Needs(package="triton", min_arch=(8, 0), k_max=1024), _load_triton)
    return Operation(name, (triton, *kernels, Backend("torch", Needs(), lambda: select_experts)))


TOPK_SOFTMAX = _operation(
    "topk_softmax", Backend("sgl_kernel", _SglKernelNeeds(), _load_sgl_softmax)
)
TOPK_SIGMOID = _operation(
    "topk_sigmoid", Backend("sgl_kernel", _SglKernelNeeds(), _load_sgl_sigmoid)
)
TOPK_GROUPED = _operation("topk_grouped")


def operation_of(config: TopKConfig) -> Operation:
    """The operation that a router of this config asks for."""
    if config.num_expert_group is not None:
        return TOPK_GROUPED
    return TOPK_SOFTMAX if config.scoring_func == "softmax" else TOPK_SIGMOID
