"""Faults of the router: which experts are chosen, and with what weight.

Each takes the layer's `select_experts` and its arguments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from layers.moe.topk import TopKConfig, TopKOutput


def off_by_one(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The next expert."""
    weights, ids = select(logits, config, bias)
    return TopKOutput(weights, (ids + 1) % logits.shape[1])


def smallest(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The worst experts."""
    weights = select(logits, config, bias).weights
    return TopKOutput(weights, select(-logits, config, bias).ids)


def last_choice_next(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The one after the last in its place."""
    weights, ids = select(logits, config, bias)
    more = select(logits, replace(config, top_k=config.top_k + 1), bias).ids
    ids = ids.clone()
    ids[:, config.top_k - 1] = more[:, config.top_k]
    return TopKOutput(weights, ids)


def one_token_only(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """Token 3's experts in the other order, its weights not."""
    weights, ids = select(logits, config, bias)
    ids = ids.clone()
    if len(ids) > 3:
        ids[3, : config.top_k] = ids[3, : config.top_k].flip(0)
    return TopKOutput(weights, ids)


def correction_ignored(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The correction bias does not choose."""
    return TopKOutput(*select(logits, config, None))


def correction_weighs(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The correction bias is part of the weights."""
    weights, ids = select(logits, config, bias)
    routed = ids[:, : config.top_k].long()
    scores = (logits.float().sigmoid() + bias).gather(1, routed)
    weights = weights.clone()
    weights[:, : config.top_k] = scores / scores.sum(1, keepdim=True) * config.routed_scaling_factor
    return TopKOutput(weights, ids)


def groups_ignored(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """All groups are considered."""
    return TopKOutput(*select(logits, replace(config, topk_group=config.num_expert_group), bias))


def groups_by_best(original: Any) -> Any:
    """A group's score is its best expert's, as without a correction bias."""
    return lambda config, num_experts, has_bias: 1


def other_scoring(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """softmax for sigmoid, and the other way round."""
    other = "softmax" if config.scoring_func == "sigmoid" else "sigmoid"
    weights = select(logits, replace(config, scoring_func=other), bias).weights
    return TopKOutput(weights, select(logits, config, bias).ids)


def not_renormalised(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """Scores as they are."""
    return TopKOutput(*select(logits, replace(config, renormalize=not config.renormalize), bias))


def factor_twice(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """routed_scaling_factor squared."""
    factor = config.routed_scaling_factor**2
    return TopKOutput(*select(logits, replace(config, routed_scaling_factor=factor), bias))


def factor_missing(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """routed_scaling_factor forgotten."""
    return TopKOutput(*select(logits, replace(config, routed_scaling_factor=1.0), bias))


def factor_of_shared(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The shared expert is multiplied as well."""
    weights, ids = select(logits, config, bias)
    weights = weights.clone()
    weights[:, config.top_k :] *= config.routed_scaling_factor
    return TopKOutput(weights, ids)


def shared_missing(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The shared expert counts nothing."""
    weights, ids = select(logits, config, bias)
    weights = weights.clone()
    weights[:, config.top_k :] = 0.0
    return TopKOutput(weights, ids)


def shared_is_first(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """The shared expert's id is a routed one's."""
    weights, ids = select(logits, config, bias)
    ids = ids.clone()
    ids[:, config.top_k :] = 0
    return TopKOutput(weights, ids)


def weights_in_bf16(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """Eight bits."""
    weights, ids = select(logits, config, bias)
    return TopKOutput(weights.bfloat16().float(), ids)


def weights_reversed(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """In the order of rising scores."""
    weights, ids = select(logits, config, bias)
    weights = weights.clone()
    weights[:, : config.top_k] = weights[:, : config.top_k].flip(1)
    return TopKOutput(weights, ids)


def nan_taken_for_zero(select: Any, logits: Tensor, config: TopKConfig, bias: Any) -> TopKOutput:
    """A NaN in the logits leads somewhere."""
    return TopKOutput(*select(logits.nan_to_num(0.0), config, bias))
