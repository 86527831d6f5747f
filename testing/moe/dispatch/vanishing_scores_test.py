"""Scores that underflow to 0 leave weights of 0, where dividing by their sum would make NaN."""

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
