"""Routing by hand: the papers' rules on numbers that can be followed on paper."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.moe.routing import Routing, choose, scores_of, unacceptable


def sigmoid_logits(scores: list[float]) -> Float64:
    p = np.array([scores])
    return np.log(p / (1 - p))


def softmax_logits(scores: list[float]) -> Float64:
    return np.log(np.array([scores])) + 3.0


def test_mixtral_renormalises_the_best() -> None:
    choice = choose(softmax_logits([0.1, 0.4, 0.2, 0.3]), Routing(2))
    assert choice.ids.tolist() == [[1, 3]]
    assert choice.weights[0] == pytest.approx([4 / 7, 3 / 7])


def test_without_renormalising_weights_are_the_scores() -> None:
    choice = choose(softmax_logits([0.1, 0.4, 0.2, 0.3]), Routing(2, renormalise=False))
    assert choice.weights[0] == pytest.approx([0.4, 0.3])


def test_deepseek_v3_bias_and_groups_choose_and_do_not_weigh() -> None:
    scores = [0.9, 0.1, 0.5, 0.6, 0.8, 0.2, 0.3, 0.4]
    bias = np.array([0, 0, 0, 0, -0.5, 0, 0.5, 0.5])
    # Biased: .9 .1 | .5 .6 | .3 .2 | .8 .9, sums of two 1.0, 1.1, .5, 1.7: groups 3 and 1 stay, and
    # expert 0, the best by itself, is not eligible.
    routing = Routing(3, "sigmoid", groups=4, kept_groups=2, factor=2.5)
    choice = choose(sigmoid_logits(scores), routing, bias)
    assert choice.ids.tolist() == [[7, 6, 3]]
    assert choice.weights[0] == pytest.approx(2.5 * np.array([0.4, 0.3, 0.6]) / 1.3)


def test_deepseek_v2_a_group_is_as_good_as_its_best() -> None:
    # By sums of two, group 0 would win.
    choice = choose(
        softmax_logits([0.2, 0.2, 0.05, 0.3, 0.15, 0.1]),
        Routing(2, renormalise=False, groups=3, kept_groups=1, factor=16.0),
    )
    assert choice.ids.tolist() == [[3, 2]]
    assert choice.weights[0] == pytest.approx([4.8, 0.8])


def test_shared_experts_follow_and_count_once() -> None:
    routing = Routing(1, "sigmoid", factor=2.5, shared=2)
    choice = choose(sigmoid_logits([0.2, 0.6, 0.4]), routing)
    assert choice.ids.tolist() == [[1, 3, 4]]
    assert choice.weights[0] == pytest.approx([2.5, 1, 1])


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_ties_go_to_the_lowest_id(scoring: str) -> None:
    choice = choose(np.zeros((2, 6)), Routing(4, scoring))
    assert choice.ids.tolist() == [[0, 1, 2, 3]] * 2
    assert choice.weights == pytest.approx(0.25)
    grouped = choose(np.zeros((1, 6)), Routing(2, scoring, groups=3, kept_groups=2))
    assert grouped.ids.tolist() == [[0, 1]]


def test_scores_far_apart_are_neither_lost_nor_infinite() -> None:
    scores = scores_of(np.array([[1000.0, 999.0, -1000.0]]), Routing(1))
    assert scores[0] == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0])
    assert scores_of(np.array([[-800.0, 800.0]]), Routing(1, "sigmoid"))[0] == pytest.approx([0, 1])


def float32_choice(
    logits: Float64, routing: Routing, bias: Float64 | None
) -> tuple[Float64, Float64]:
    """The rule in float32, by the field's order of operations and not by the oracle's."""
    x = logits.astype(np.float32)
    if routing.scoring == "softmax":
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True, dtype=np.float32)
    else:
        scores = np.float32(1) / (np.float32(1) + np.exp(-x))
    order = np.argsort(-(scores + (0 if bias is None else bias.astype(np.float32))), axis=1)
    ids = order[:, : routing.top_k]
    weights = np.take_along_axis(scores, ids, axis=1)
    weights = weights / weights.sum(axis=1, keepdims=True, dtype=np.float32)
    return ids, weights * np.float32(routing.factor)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_float32_evaluation_is_always_within_the_error(scoring: str, with_bias: bool) -> None:
    rng = np.random.default_rng(11)
    routing = Routing(6, scoring, factor=2.5)
    logits = (rng.standard_normal((4000, 64)) * 2).astype(np.float32).astype(np.float64)
    bias = rng.standard_normal(64).astype(np.float32).astype(np.float64) if with_bias else None
    ids, weights = float32_choice(logits, routing, bias)
    choice = choose(logits, routing, bias)
    assert unacceptable(ids, logits, routing, bias) == []
    same = (ids == choice.ids).all(axis=1)
    assert same.mean() > 0.99
    assert (np.abs(weights - choice.weights) <= choice.error)[same].all()
    # Hundreds of roundings at worst, so that no wrong rule hides in it.
    assert (choice.error / choice.weights).max() < 2e-5


def test_a_wrong_choice_is_not_acceptable() -> None:
    rng = np.random.default_rng(12)
    routing = Routing(2, "sigmoid", groups=4, kept_groups=2)
    logits, bias = rng.standard_normal((50, 8)), rng.standard_normal(8)
    ids = choose(logits, routing, bias).ids
    assert unacceptable(ids, logits, routing, bias) == []
    ungrouped = choose(logits, Routing(2, "sigmoid"), bias).ids
    differs = (np.sort(ids) != np.sort(ungrouped)).any(axis=1).nonzero()[0].tolist()
    assert differs
    assert unacceptable(ungrouped, logits, routing, bias) == differs
    unbiased = choose(logits, routing).ids
    assert set(unacceptable(unbiased, logits, routing, bias)) == set(
        (np.sort(ids) != np.sort(unbiased)).any(axis=1).nonzero()[0].tolist()
    )


def test_near_ties_may_go_either_way_and_exact_ones_not() -> None:
    close = np.array([[0.0, 1.0, 1.0 + 2.0**-24, 0.5]])
    assert unacceptable(np.array([[1]]), close, Routing(1)) == []
    assert unacceptable(np.array([[2]]), close, Routing(1)) == []
    assert unacceptable(np.array([[3]]), close, Routing(1)) == [0]
    exact = np.array([[0.0, 1.0, 1.0, 0.5]])
    assert unacceptable(np.array([[1]]), exact, Routing(1)) == []
    assert unacceptable(np.array([[2]]), exact, Routing(1)) == [0]


def test_an_expert_chosen_twice_is_not_acceptable() -> None:
    assert unacceptable(np.array([[1, 1]]), np.array([[0.0, 1.0, 1.0]]), Routing(2)) == [0]
