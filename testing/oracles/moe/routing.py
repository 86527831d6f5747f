"""Which experts a token goes to and with what weights, in float64 and from the definition.

Scores are the softmax or the sigmoid of the router's logits. A correction bias is added for the
choice alone. With groups, a group scores the sum of its two best biased scores (DeepSeek-V3,
arXiv 2412.19437, and its reference code), or its best score where scoring is softmax and there is
no bias (DeepSeek-V2, arXiv 2405.04434); experts outside the best groups are not eligible. Of equal
scores, groups as well as experts, the lowest id wins. The weights are the unbiased scores of the
chosen, divided by their sum if renormalised (Mixtral, arXiv 2401.04088), times a factor. Shared
experts follow the routed ones in id and count once each, whatever the factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Mask
from testing.oracles.moe.fp32_functions import exp_error, sigmoid, sigmoid_error
from testing.oracles.rounding import FP32

Int64: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Routing:
    """A router's rule.

    top_k: routed experts a token.
    scoring: "softmax" or "sigmoid".
    renormalise: weights of the routed experts add up to one, before the factor.
    groups, kept_groups: consecutive equal groups of experts, and how many of them stay eligible.
    factor: multiplies the weights of routed experts.
    shared: experts that every token goes to, with ids behind the routed ones.
    """

    top_k: int
    scoring: str = "softmax"
    renormalise: bool = True
    groups: int | None = None
    kept_groups: int | None = None
    factor: float = 1.0
    shared: int = 0


@dataclass(frozen=True)
class Choice:
    """ids, weights: (T, top_k + shared), best first and shared last; error: (T, top_k + shared).

    error: how far a float32 evaluation of the weight may be off.
    """

    ids: Int64
    weights: Float64
    error: Float64


def scores_of(logits: Float64, routing: Routing) -> Float64:
    """(T, E) unbiased scores; a NaN makes its whole row NaN under softmax, itself under sigmoid."""
    logits = np.asarray(logits, np.float64)
    if routing.scoring == "sigmoid":
        return sigmoid(logits)
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def choose(logits: Float64, routing: Routing, bias: Float64 | None = None) -> Choice:
    """The rule's choice for finite (T, E) logits and an (E,) correction bias."""
    scores = scores_of(logits, routing)
    biased = scores if bias is None else scores + bias
    eligible = _eligible(biased, routing, bias is not None)
    order = np.argsort(np.where(eligible, -biased, np.inf), axis=1, kind="stable")
    ids = order[:, : routing.top_k]
    relative = relative_score_error(logits, routing)
    return weigh(ids, scores, relative, routing)


def weigh(ids: Int64, scores: Float64, relative: Float64, routing: Routing) -> Choice:
    """Weights of the routed experts `ids` (T, top_k), whoever chose them.

    relative: (T, E) relative error of a score in float32. A sum of top_k terms has top_k - 1
    roundings, a quotient at most four (a fast division), the factor and its product two.
    """
    weights, error = (np.take_along_axis(a, ids, axis=1) for a in (scores, relative))
    roundings = 2
    if routing.renormalise:
        weights = weights / weights.sum(axis=1, keepdims=True)
        error = error + (weights * error).sum(axis=1, keepdims=True)
        roundings += routing.top_k + 3
    weights = weights * routing.factor
    # Below 2^-126 a score may be flushed to zero.
    error = (error + roundings * FP32.unit_roundoff) * weights + 2.0**FP32.min_exponent
    first = scores.shape[1]
    shared = np.tile(np.arange(first, first + routing.shared), (len(ids), 1))
    ones = np.ones(shared.shape)
    # 1/factor·factor in float32.
    return Choice(
        np.concatenate([ids, shared], axis=1).astype(np.int64),
        np.concatenate([weights, ones], axis=1),
        np.concatenate([error, 3 * FP32.unit_roundoff * ones], axis=1),
    )


def unacceptable(
    ids: Int64, logits: Float64, routing: Routing, bias: Float64 | None = None
) -> list[int]:
    """Rows of routed ids (T, top_k) that no float32 evaluation of the rule can have chosen.

    Scores may each be off by their float32 error, and groups' scores by that of their parts; a set
    that is right for some such scores is acceptable. Experts of equal logit and bias have equal
    scores in any arithmetic, so between those the lowest id must have won.
    """
    scores = scores_of(logits, routing)
    error = relative_score_error(logits, routing) * scores
    biased = scores if bias is None else scores + bias
    if bias is not None:
        error = error + FP32.unit_roundoff * np.abs(biased)
    twins = logits if bias is None else logits + 1j * bias
    wrong = []
    for row in range(len(ids)):
        groupings = _possible_groups(biased[row], error[row], routing, bias is not None)
        fits = any(_fits(set(ids[row]), biased[row], error[row], twins[row], g) for g in groupings)
        if not fits or len(set(ids[row])) != routing.top_k:
            wrong.append(row)
    return wrong


def _fits(chosen: set[int], scores: Float64, error: Float64, twins: object, pool: Mask) -> bool:
    every = set(np.flatnonzero(pool).tolist())
    if not chosen <= every:
        return False
    values = np.asarray(twins)
    for i in chosen:
        for j in every - chosen:
            if scores[i] < scores[j] - error[i] - error[j]:
                return False
            if values[i] == values[j] and j < i:
                return False
    return True


def _possible_groups(scores: Float64, error: Float64, routing: Routing, biased: bool) -> list[Mask]:
    if routing.groups is None or routing.kept_groups is None:
        return [np.ones(len(scores), dtype=bool)]
    size = len(scores) // routing.groups
    group = _group_scores(scores[None], routing, biased)[0]
    # Two scores a group, and the rounding of their sum.
    slack = 2 * error.reshape(routing.groups, size).max(axis=1) + FP32.unit_roundoff * abs(group)
    possible: list[Mask] = []
    for kept in combinations(range(routing.groups), routing.kept_groups):
        dropped = [g for g in range(routing.groups) if g not in kept]
        if all(group[k] >= group[d] - slack[k] - slack[d] for k in kept for d in dropped):
            possible.append(np.repeat(np.isin(np.arange(routing.groups), kept), size))
    return possible


def _eligible(biased: Float64, routing: Routing, has_bias: bool) -> Mask:
    if routing.groups is None or routing.kept_groups is None:
        return np.ones(biased.shape, dtype=bool)
    group = _group_scores(biased, routing, has_bias)
    best = np.argsort(-group, axis=1, kind="stable")[:, : routing.kept_groups]
    kept = np.zeros(group.shape, dtype=bool)
    np.put_along_axis(kept, best, True, axis=1)
    return np.repeat(kept, biased.shape[1] // routing.groups, axis=1)


def _group_scores(biased: Float64, routing: Routing, has_bias: bool) -> Float64:
    assert routing.groups is not None
    grouped = np.sort(biased.reshape(len(biased), routing.groups, -1), axis=2)
    best = 1 if routing.scoring == "softmax" and not has_bias else 2
    return np.asarray(grouped[:, :, -best:].sum(axis=2))


def relative_score_error(logits: Float64, routing: Routing) -> Float64:
    """(T, E) relative error of a float32 score.

    Softmax: the exponential of its rounded argument, a sum of E terms (E - 1 roundings, and the
    mean error of its terms, at most the largest of a term that counts), a quotient.
    """
    if routing.scoring == "sigmoid":
        return sigmoid_error(logits)
    distance = logits.max(axis=1, keepdims=True) - logits
    own = exp_error(distance)
    mean = (scores_of(logits, routing) * own).sum(axis=1, keepdims=True)
    return np.asarray(own + mean + (logits.shape[1] + 3) * FP32.unit_roundoff)
