"""The activations between the matmuls under the static scale of each pair's expert."""

from __future__ import annotations

import torch

from layers.kernels.moe.routing import Routing
from layers.kernels.moe.static_fp8_quant_by_expert import quantise_torch

SCALES = torch.tensor([[0.5], [2.0]])


def test_each_pair_is_divided_by_its_experts_scale() -> None:
    routing = Routing(torch.tensor([[1, 0], [0, -1]], dtype=torch.int32), 2, is_complete=False)
    codes, scales = quantise_torch(torch.full((4, 3), 4.0), routing, SCALES)
    assert scales[:3].flatten().tolist() == [2.0, 0.5, 0.5]
    assert codes[:3].float().tolist() == [[2.0] * 3, [8.0] * 3, [8.0] * 3]


def test_what_is_beyond_the_scale_saturates_and_what_is_not_finite_is_nan() -> None:
    # An Inf is what h overflows to in float16: it must not come out as a finite 448.
    routing = Routing(torch.tensor([[0]], dtype=torch.int32), 2)
    h = torch.tensor([[1e4, -1e4, torch.inf, -torch.inf, torch.nan, 3e38]])
    codes = quantise_torch(h, routing, SCALES)[0].float()[0]
    assert codes[[0, 1, 5]].tolist() == [448.0, -448.0, 448.0]
    assert codes[2:5].isnan().all()
