"""Which experts a token goes to, and with what weight: the torch reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

SCORING = ("softmax", "sigmoid")
SMALLEST_SUM = 2.0**-126
LARGEST = torch.finfo(torch.float32).max


class TopKOutput(NamedTuple):
    """For each token its chosen experts.

    Attributes:
        weights: (T, K) float32.
        ids: (T, K) int32, of all experts of the layer, shared ones included.
    """

    weights: torch.Tensor
    ids: torch.Tensor


@dataclass(frozen=True)
class TopKConfig:
    """How a model's router chooses experts.

    Attributes:
        top_k: routed experts a token.
        scoring_func: "softmax" over the experts, or "sigmoid" of each.
        renormalize: divide the chosen scores by their sum.
        num_expert_group, topk_group: divide the experts into groups of neighbours, of which
            `topk_group` are considered (DeepSeek's grouped top-k); None for no groups.
        routed_scaling_factor: multiplies the routed experts' weights, after renormalising.
        num_shared_experts: experts that every token uses besides, with weight 1: columns at the
            end of `TopKOutput`, with ids after the routed experts'.

    Raises:
        ValueError: values that do not fit together.
    """

    top_k: int
    scoring_func: str = "softmax"
    renormalize: bool = True
    num_expert_group: int | None = None
    topk_group: int | None = None
    routed_scaling_factor: float = 1.0
    num_shared_experts: int = 0

    def __post_init__(self) -> None:
        self._check_types()
        if self.scoring_func not in SCORING:
            raise ValueError(
                f"scoring_func is {self.scoring_func!r}, wanted {' or '.join(map(repr, SCORING))}. "
                f"Check the model's configuration."
            )
        if self.top_k < 1 or self.num_shared_experts < 0 or self.routed_scaling_factor <= 0:
            raise ValueError(
                f"top_k is {self.top_k}, num_shared_experts {self.num_shared_experts} and "
                f"routed_scaling_factor {self.routed_scaling_factor}, wanted at least 1, at least "
                f"0 and above 0. Check the model's configuration."
            )
        groups, chosen = self.num_expert_group, self.topk_group
        if (groups is None) != (chosen is None):
            raise ValueError(
                f"num_expert_group is {groups} and topk_group {chosen}: give both or neither."
            )
        if groups is not None and chosen is not None and not 1 <= chosen <= groups:
            raise ValueError(f"topk_group is {chosen}, wanted 1 to num_expert_group, {groups}.")

    def _check_types(self) -> None:
        names = ("top_k", "num_expert_group", "topk_group", "num_shared_experts")
        for name in names:
            value = getattr(self, name)
            if value is None and name.endswith("_group"):
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(
                    f"{name} is {value!r}, wanted an integer. Check the model's configuration."
                )
        factor = self.routed_scaling_factor
        if not isinstance(factor, int | float) or not math.isfinite(factor) or factor > LARGEST:
            raise ValueError(
                f"routed_scaling_factor is {factor!r}, wanted a finite number that float32 holds. "
                f"Check the model's configuration."
            )
        if not isinstance(self.renormalize, bool):
            raise ValueError(
                f"renormalize is {self.renormalize!r}, wanted True or False. Check the model's "
                f"configuration (norm_topk_prob)."
            )

    @property
    def choices(self) -> int:
        """K: columns of `TopKOutput`."""
        return self.top_k + self.num_shared_experts

    def check_experts(self, num_experts: int, prefix: str = "") -> None:
        """Refuses a number of routed experts that the choice cannot be made from.

        Raises:
            ValueError: fewer experts than are chosen, or groups that do not divide them.
        """
        groups, chosen = self.num_expert_group or 1, self.topk_group or 1
        layer = f"layer '{prefix}': " if prefix else ""
        if num_experts % groups:
            raise ValueError(
                f"{layer}{num_experts} experts do not divide into num_expert_group {groups} "
                f"groups. Check the model's configuration."
            )
        candidates = num_experts // groups * chosen
        if self.top_k > candidates:
            raise ValueError(
                f"{layer}top_k is {self.top_k}, but only {candidates} of {num_experts} experts are "
                f"considered. Check the model's configuration."
            )


def select_experts(
    router_logits: torch.Tensor,
    config: TopKConfig,
    correction_bias: torch.Tensor | None = None,
) -> TopKOutput:
    """Chooses by score plus correction bias, and weighs by score alone; all in float32.

    Of equal scores the lower id wins, and the choices of a token come in falling order. A row of
    logits with a NaN gets weights with NaN, and still valid, different ids. Where the chosen scores
    are all 0 (a sigmoid that underflows), renormalising leaves them 0.

    A group's score is the sum of its two best biased scores (DeepSeek-V3); with softmax and without
    bias its best one (DeepSeek-V2).

    Args:
        router_logits: (T, E) float, E routed experts.
        config: how to choose.
        correction_bias: (E,) float, or None.

    Raises:
        ValueError: logits or bias of another shape, or too few experts.
    """
    check_shapes(router_logits, config, correction_bias)
    logits = router_logits.float()
    scores = logits.softmax(-1) if config.scoring_func == "softmax" else logits.sigmoid()
    biased = scores if correction_bias is None else scores + correction_bias.float()
    if config.num_expert_group is not None:
        count = best_of(config, scores.shape[1], correction_bias is not None)
        biased = _mask_groups(biased, config, count)
    ids = _largest(biased, config.top_k)
    weights = scores.gather(1, ids)
    if config.renormalize:
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=SMALLEST_SUM)
    weights = weights * config.routed_scaling_factor
    return with_shared(weights, ids, config, router_logits.shape[1])


def best_of(config: TopKConfig, num_experts: int, has_bias: bool) -> int:
    """How many of a group's best scores make its own."""
    count = 1 if config.scoring_func == "softmax" and not has_bias else 2
    return min(count, num_experts // (config.num_expert_group or 1))


def check_shapes(
    router_logits: torch.Tensor, config: TopKConfig, correction_bias: torch.Tensor | None
) -> None:
    """Refuses logits or a bias that the config cannot choose from.

    Raises:
        ValueError: another shape or dtype, or too few experts.
    """
    if router_logits.dim() != 2 or not router_logits.is_floating_point():
        raise ValueError(
            f"router_logits is {tuple(router_logits.shape)} {router_logits.dtype}, wanted "
            f"(tokens, experts) of a float dtype."
        )
    experts = router_logits.shape[1]
    config.check_experts(experts)
    if correction_bias is not None:
        check_bias(correction_bias, experts, router_logits.device)


def check_bias(bias: torch.Tensor, experts: int, device: torch.device, prefix: str = "") -> None:
    """Refuses a correction bias that does not fit the router.

    Raises:
        ValueError: another shape, dtype or device.
    """
    layer = f"layer '{prefix}': " if prefix else ""
    if not isinstance(bias, torch.Tensor):
        raise ValueError(
            f"{layer}correction_bias is a {type(bias).__name__}, wanted a torch.Tensor "
            f"({experts},) of a float dtype on {device}."
        )
    fits = tuple(bias.shape) == (experts,) and bias.is_floating_point()
    if not fits or bias.device != device:
        raise ValueError(
            f"{layer}correction_bias is {tuple(bias.shape)} {bias.dtype} on {bias.device}, wanted "
            f"({experts},) of a float dtype on {device}: one for each column of router_logits."
        )


def _largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    # torch.topk promises nothing about ties.
    return scores.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def _mask_groups(biased: torch.Tensor, config: TopKConfig, count: int) -> torch.Tensor:
    """The scores, with -Inf for the experts of groups that are not considered."""
    assert config.num_expert_group is not None and config.topk_group is not None
    tokens, experts = biased.shape
    grouped = biased.view(tokens, config.num_expert_group, -1)
    best = grouped.topk(count, dim=-1).values.sum(-1)
    considered = torch.zeros_like(best, dtype=torch.bool)
    considered.scatter_(1, _largest(best, config.topk_group), True)
    masked = grouped.masked_fill(~considered.unsqueeze(-1), -torch.inf)
    return masked.view(tokens, experts)


def with_shared(
    weights: torch.Tensor, ids: torch.Tensor, config: TopKConfig, routed: int
) -> TopKOutput:
    """The routed experts' (T, top_k) weights and ids, and behind them the shared experts'."""
    if config.num_shared_experts:
        shape = (weights.shape[0], config.num_shared_experts)
        shared = torch.arange(routed, routed + shape[1], device=ids.device)
        ids = torch.cat([ids, shared.expand(shape)], dim=1)
        weights = torch.cat([weights, weights.new_ones(shape)], dim=1)
    return TopKOutput(weights.contiguous(), ids.to(torch.int32).contiguous())
