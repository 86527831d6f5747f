"""Edges of the choice: scores that underflow to 0, and groups of one expert."""

from __future__ import annotations

import pytest
import torch

from layers.moe.topk import TopKConfig, select_experts


@pytest.mark.parametrize("groups", [None, 2])
def test_renormalising_zeros_leaves_zeros(groups: int | None) -> None:
    config = TopKConfig(
        2, "sigmoid", num_expert_group=groups, topk_group=groups and 1, routed_scaling_factor=2.5
    )
    logits = torch.full((2, 4), -200.0)
    logits[1, 1] = 0.0
    weights, ids = select_experts(logits, config)
    assert ids.tolist() == [[0, 1], [1, 0]]
    assert weights.tolist() == [[0.0, 0.0], [2.5, 0.0]]


def test_a_group_of_one_expert_has_that_experts_score() -> None:
    config = TopKConfig(2, "sigmoid", renormalize=False, num_expert_group=4, topk_group=2)
    logits = torch.tensor([[0.0, 2.0, 1.0, -1.0]])
    weights, ids = select_experts(logits, config)
    assert ids.tolist() == [[1, 2]]
    assert torch.equal(weights, logits.sigmoid()[:, 1:3])
