"""sgl_kernel's top-k kernels as backends of the router; see `layers.moe.topk_operations`.

`topk_softmax` and `topk_sigmoid` score and choose; what follows is done here, by torch, as the
kernels do it differently: of a row whose chosen scores are all 0 they make NaN in renormalising,
and a row with a NaN, or Inf under softmax, gets one expert several times, with a weight of -10000.

Left out: a correction bias. `topk_softmax` adds it to the logits, not to the scores, and weighs by
the result; `topk_sigmoid` finds the weights by subtracting it from the biased scores again, which
loses their low bits. `moe_fused_gate`, for grouped routers, is gone from sgl_kernel 0.4.8.

The kernels' tie rule, the lowest id, holds for numbers of experts that are powers of two up to 256:
for others they take another path, in which the higher id may win.
Sources: sgl-kernel/csrc/moe/moe_topk_softmax_kernels.cu and moe_topk_sigmoid_kernels.cu of sglang.
"""

from __future__ import annotations

from collections.abc import Callable

import sgl_kernel
import torch

from layers.moe.topk import SMALLEST_SUM, TopKConfig, TopKOutput, check_shapes, with_shared

Kernel = Callable[..., None]


def select_softmax(
    router_logits: torch.Tensor, config: TopKConfig, correction_bias: torch.Tensor | None = None
) -> TopKOutput:
    """`layers.moe.topk.select_experts` on a GPU, of softmax scores, without groups or bias."""
    peaks = router_logits.float().amax(dim=-1, keepdim=True)
    return _select(sgl_kernel.topk_softmax, router_logits, peaks < torch.inf, config)


def select_sigmoid(
    router_logits: torch.Tensor, config: TopKConfig, correction_bias: torch.Tensor | None = None
) -> TopKOutput:
    """`layers.moe.topk.select_experts` on a GPU, of sigmoid scores, without groups or bias."""
    peaks = router_logits.float().amax(dim=-1, keepdim=True)
    return _select(sgl_kernel.topk_sigmoid, router_logits, peaks == peaks, config)


def _select(
    kernel: Kernel, router_logits: torch.Tensor, is_sound: torch.Tensor, config: TopKConfig
) -> TopKOutput:
    check_shapes(router_logits, config, None)
    tokens, experts = router_logits.shape
    logits = torch.where(is_sound, router_logits.float(), 0.0)
    shape, device = (tokens, config.top_k), logits.device
    weights = torch.empty(shape, dtype=torch.float32, device=device)
    ids = torch.empty(shape, dtype=torch.int32, device=device)
    # The kernels launch on the current device, whatever the tensors' is.
    with torch.cuda.device_of(logits):
        kernel(weights, ids, logits, False)
    if config.renormalize:
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=SMALLEST_SUM)
    weights = torch.where(is_sound, weights * config.routed_scaling_factor, torch.nan)
    return with_shared(weights, ids, config, experts)
