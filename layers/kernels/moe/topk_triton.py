# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton kernel of the router's top-k, one program a token; see `layers.moe.topk`.

Scores are compared as integers of the same order, in which a NaN is above all else: a row with a
NaN still has different, valid ids.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _order(x):
    """float32 -> int32 in the same order; -0 equals 0, and NaN is the largest."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(x == x, ordered, 0x7FFFFFFF)


@triton.jit
def _first_largest(order, index, SIZE: tl.constexpr):
    """The lowest index of the largest element."""
    return tl.min(tl.where(order == tl.max(order, axis=0), index, SIZE), axis=0)


@triton.jit
def _without(order, index, chosen):
    """The order with one element below every other."""
    return tl.where(index == chosen, -2147483648, order)


@triton.jit
def _group_scores(
    biased,
    order,
    group_of,
    index,
    groups,
    SIZE: tl.constexpr,
    GROUP_SIZE: tl.constexpr,
    BEST_OF: tl.constexpr,
):
    """For each group the sum of its BEST_OF best scores."""
    slot = tl.arange(0, GROUP_SIZE)
    scores = tl.zeros((GROUP_SIZE,), dtype=tl.float32)
    for group in range(0, groups):
        left = tl.where(group_of == group, order, -2147483648)
        for _ in tl.static_range(BEST_OF):
            best = _first_largest(left, index, SIZE)
            score = tl.sum(tl.where(index == best, biased, 0.0), axis=0)
            scores += tl.where(slot == group, score, 0.0)
            left = _without(left, index, best)
    return scores


@triton.jit
def _mask_groups(
    biased,
    order,
    index,
    experts,
    groups,
    chosen_groups,
    SIZE: tl.constexpr,
    GROUP_SIZE: tl.constexpr,
    BEST_OF: tl.constexpr,
):
    """The order, with what -Inf would have for experts of groups that are not among the best."""
    group_of = index // (experts // groups)
    scores = _group_scores(biased, order, group_of, index, groups, SIZE, GROUP_SIZE, BEST_OF)
    slot = tl.arange(0, GROUP_SIZE)
    group_order = tl.where(slot < groups, _order(scores), -2147483648)
    considered = index < 0
    for _ in range(0, chosen_groups):
        best = _first_largest(group_order, slot, GROUP_SIZE)
        considered = considered | (group_of == best)
        group_order = _without(group_order, slot, best)
    return tl.where(considered | (index >= experts), order, -2139095041)


@triton.jit
def _scores(logits, IS_SIGMOID: tl.constexpr):
    if IS_SIGMOID:
        scores = 1.0 / (1.0 + tl.exp(-logits))
    else:
        shifted = tl.exp(logits - tl.max(logits, axis=0))
        scores = shifted / tl.sum(shifted, axis=0)
    return scores


@triton.jit(do_not_specialize=["experts", "top_k", "shared", "groups", "chosen_groups"])
def _select(
    logits_ptr,
    bias_ptr,
    weights_ptr,
    ids_ptr,
    logits_stride,
    factor,
    experts,
    top_k,
    shared,
    groups,
    chosen_groups,
    HAS_GROUPS: tl.constexpr,
    BEST_OF: tl.constexpr,
    IS_SIGMOID: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    RENORMALIZE: tl.constexpr,
    SIZE: tl.constexpr,
    GROUP_SIZE: tl.constexpr,
    CHOICES: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, SIZE)
    inside = index < experts
    logits = tl.load(logits_ptr + token * logits_stride + index, mask=inside, other=float("-inf"))
    scores = _scores(logits.to(tl.float32), IS_SIGMOID)
    biased = scores
    if HAS_BIAS:
        biased += tl.load(bias_ptr + index, mask=inside, other=0.0).to(tl.float32)
    order = tl.where(inside, _order(biased), -2147483648)
    if HAS_GROUPS:
        order = _mask_groups(
            biased, order, index, experts, groups, chosen_groups, SIZE, GROUP_SIZE, BEST_OF
        )
    slot = tl.arange(0, CHOICES)
    weights = tl.zeros((CHOICES,), dtype=tl.float32)
    # Those behind the routed ones are the shared experts.
    ids = slot - top_k + experts
    for choice in range(0, top_k):
        best = _first_largest(order, index, SIZE)
        weights += tl.where(slot == choice, tl.sum(tl.where(index == best, scores, 0.0)), 0.0)
        ids = tl.where(slot == choice, best, ids)
        order = _without(order, index, best)
    if RENORMALIZE:
        total = tl.sum(weights, axis=0)
        weights = weights / tl.where(total < 1.1754943508222875e-38, 1.1754943508222875e-38, total)
    weights = tl.where(slot < top_k, weights * factor, 1.0)
    place = token * (top_k + shared) + slot
    tl.store(weights_ptr + place, weights, mask=slot < top_k + shared)
    tl.store(ids_ptr + place, ids, mask=slot < top_k + shared)


def select_triton(
    logits: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    top_k: int,
    is_sigmoid: bool,
    renormalize: bool,
    groups: int,
    chosen_groups: int,
    best_of: int,
    factor: float,
    shared: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """logits (T, E) float on a GPU, bias (E,) -> weights (T, K) float32, ids (T, K) int32.

    Args:
        logits: the last dimension dense.
        bias: dense, or None.
        top_k, is_sigmoid, renormalize, factor, shared: as `TopKConfig` has them.
        groups, chosen_groups, best_of: 0 groups for none; a group's score is the sum of `best_of`.
    """
    tokens, experts = logits.shape
    weights = torch.empty((tokens, top_k + shared), dtype=torch.float32, device=logits.device)
    ids = torch.empty((tokens, top_k + shared), dtype=torch.int32, device=logits.device)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(logits):
        _select[(tokens,)](
            *(logits, logits if bias is None else bias, weights, ids, logits.stride(0)),
            *(float(factor), experts, top_k, shared, groups, chosen_groups),
            HAS_GROUPS=groups > 0,
            BEST_OF=best_of,
            IS_SIGMOID=is_sigmoid,
            HAS_BIAS=bias is not None,
            RENORMALIZE=renormalize,
            SIZE=triton.next_power_of_2(experts),
            GROUP_SIZE=triton.next_power_of_2(max(groups, 1)),
            CHOICES=triton.next_power_of_2(top_k + shared),
            num_warps=2,
        )
    return weights, ids
