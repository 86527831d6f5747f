"""Attention by hand: weights that are known, and what each rule takes away or adds."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64, Mask
from testing.oracles.attention.dense import Request, Rule, attend
from testing.oracles.attention.masks import chain, depths, tree_of


def one_head(
    logits: list[float], values: list[float], scaling: float = 1.0
) -> tuple[Request, Rule]:
    """One query of one head of size 1, q = 1, whose logits are `logits` under `scaling` 1."""
    k, v = (np.array(a, np.float64).reshape(-1, 1, 1) for a in (logits, values))
    return Request(np.ones((1, 1, 1)), k, v), Rule(1, 1, scaling)


def test_equal_logits_give_the_mean() -> None:
    request, rule = one_head([3, 3, 3, 3], [1, 2, 3, 6])
    assert attend(request, rule).output.item() == pytest.approx(3.0, abs=1e-15)


def test_weights_are_exponentials_of_scaled_logits() -> None:
    request, rule = one_head([np.log(2), np.log(32)], [0, 1], scaling=0.5)
    root = np.sqrt([2, 32])
    assert attend(request, rule).output.item() == pytest.approx(root[1] / root.sum(), rel=1e-14)


def test_large_logits_do_not_overflow() -> None:
    request, rule = one_head([10000, 10000 + np.log(3)], [0, 4])
    assert attend(request, rule).output.item() == pytest.approx(3.0, rel=1e-11)


def test_a_soft_cap_bends_logits() -> None:
    request, rule = one_head([0, 1e6], [0, 1])
    capped = Rule(1, 1, 1.0, soft_cap=2.0)
    assert attend(request, rule).output.item() == 1.0
    assert attend(request, capped).output.item() == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-14)


def test_a_sink_takes_its_share_and_is_neither_scaled_nor_capped() -> None:
    request, _ = one_head([0, 0], [1, 1])
    rule = Rule(1, 1, 0.125, soft_cap=1.0, sinks=np.array([np.log(6)]))
    assert attend(request, rule).output.item() == pytest.approx(2 / 8, rel=1e-14)


@pytest.mark.parametrize(("window", "mean"), [(1, 4.0), (2, 3.5), (4, 2.5), (5, 2.5), (None, 2.5)])
def test_a_window_counts_the_query_itself(window: int | None, mean: float) -> None:
    request, _ = one_head([0, 0, 0, 0], [1, 2, 3, 4])
    assert attend(request, Rule(1, 1, 1.0, window)).output.item() == pytest.approx(mean, rel=1e-15)


def means(request: Request, window: int | None = None) -> list[float]:
    """Outputs where every logit is 0."""
    return [float(o) for o in attend(request, Rule(1, 1, 1.0, window)).output.ravel()]


def zeros(queries: int, values: list[float], **rest: Mask | np.ndarray) -> Request:
    v: Float64 = np.array(values, np.float64).reshape(-1, 1, 1)
    return Request(np.zeros((queries, 1, 1)), np.zeros_like(v), v, **rest)


def test_extend_is_causal_behind_a_prefix() -> None:
    assert means(zeros(3, [1, 3, 5, 7, 9])) == pytest.approx([3, 4, 5])


def test_drafts_see_the_prefix_their_ancestors_and_themselves() -> None:
    tree = tree_of([-1, 0, 0, 2])
    request = zeros(4, [10, 1, 2, 3, 4], tree=tree)
    assert means(request) == pytest.approx([11 / 2, 13 / 3, 14 / 3, 18 / 4])
    assert depths(tree).tolist() == [0, 1, 1, 2]


def test_a_chain_of_drafts_is_causal() -> None:
    values: list[float] = [1, 3, 5, 7, 9]
    assert means(zeros(3, values, tree=chain(3))) == means(zeros(3, values))


def test_windows_of_trees_count_by_position_and_not_by_slot() -> None:
    tree = tree_of([-1, -1, 1])
    positions = 2 + depths(tree)
    request = zeros(3, [1, 2, 4, 8, 16], tree=tree, positions=positions)
    # Position 2 sees positions 1 and 2; draft 2, at position 3, sees draft 1 at position 2.
    assert means(request, window=2) == pytest.approx([(2 + 4) / 2, (2 + 8) / 2, (8 + 16) / 2])


def test_a_parent_stands_before_its_child() -> None:
    with pytest.raises(ValueError, match="draft 0 has the parent 1"):
        tree_of([1, 0])


def test_query_heads_share_key_value_heads_in_groups() -> None:
    v = np.array([1.0, 2.0]).reshape(1, 2, 1)
    request = Request(np.zeros((1, 6, 1)), np.zeros((1, 2, 1)), v)
    assert attend(request, Rule(6, 2, 1.0)).output.ravel().tolist() == [1, 1, 1, 2, 2, 2]


def test_a_query_that_sees_nothing_has_no_answer_unless_there_is_a_sink() -> None:
    request = zeros(2, [1, 2])
    nothing = np.array([[True, False], [False, False]])
    with pytest.raises(ValueError, match="query 1 sees no key"):
        attend(request, Rule(1, 1, 1.0), visible=nothing)
    sinking = Rule(1, 1, 1.0, sinks=np.zeros(1))
    assert attend(request, sinking, visible=nothing).output.ravel().tolist() == [0.5, 0.0]


def test_values_may_be_wider_than_keys() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(s) for s in ((2, 4, 3), (5, 2, 3), (5, 2, 7)))
    output = attend(Request(q, k, v), Rule(4, 2, 0.5)).output
    assert output.shape == (2, 4, 7)
    # Query 0 of head 3, in plain Python.
    x = [0.5 * float(q[0, 3] @ k[j, 1]) for j in range(4)]
    w = np.exp(x) / np.exp(x).sum()
    np.testing.assert_allclose(output[0, 3], w @ v[:4, 1], rtol=1e-13)
