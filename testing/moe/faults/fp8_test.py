"""Faults planted in fp8 MoE layers are caught, and named, by the layers' own probes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import layers.moe.quantization.fp8
import layers.quantization.fp8  # noqa: F401 both register themselves
from layers.kernels.moe.routing import Routing
from testing.harness.moe.layer import LoadedMoe, MoeCase
from testing.moe.faults.any_method import ANY_METHOD
from testing.moe.faults.fault import (
    Fault,
    around,
    findings_of,
    on_parameter,
    one_step,
    require_found,
    scaled,
)
from testing.moe.fp8.methods import BLOCK, STATIC_EXACT

TENSOR = MoeCase(STATIC_EXACT, 16, 4, 128, 64, bias=True)
BLOCKS = MoeCase(BLOCK, 16, 4, 256, 128, bias=True)


def gate_scale_for_up(scale: torch.Tensor) -> None:
    """One scale for w13, as where a fold takes the maximum and requantises nothing."""
    half = scale.shape[1] // 2
    largest = torch.maximum(scale[:, :1], scale[:, half : half + 1])
    scale.copy_(largest.expand_as(scale))


def first_expert_scale(original: Any, h: torch.Tensor, routing: Routing) -> Any:
    """h of every expert quantised with the first one's scale."""
    return original(h, Routing(torch.zeros_like(routing.ids), routing.experts))


def truncated(original: Any, h: torch.Tensor, *args: Any) -> Any:
    """Codes towards zero: the next code down where rounding went up."""
    codes, scales = original(h, *args)
    wide = scales.repeat_interleave(-(-h.shape[1] // scales.shape[1]), 1)[:, : h.shape[1]]
    too_large = codes.float().abs() * wide > h.float().abs()
    return (codes.view(torch.uint8) - too_large.to(torch.uint8)).view(codes.dtype), scales


def transposed_scales(loaded: LoadedMoe) -> None:
    """Block rows for block columns."""
    scale = loaded.layer.get_parameter("w13_weight_scale_inv").data
    scale.copy_(scale.transpose(1, 2).contiguous())


TENSOR_FAULTS = [
    Fault(
        "one scale for gate and up", on_parameter("w13_weight_scale", gate_scale_for_up), "gate_up"
    ),
    Fault(
        "another expert's input scale",
        around("quantise_hidden", first_expert_scale),
        "down on the lossless grid",
    ),
    Fault("h's codes truncated", around("quantise_hidden", truncated), "down on ties of h"),
    Fault(
        "one byte",
        on_parameter("w13_weight", one_step((1, 70, 9))),
        "readback of gate and up",
        "expert 1, shard 'up', row 6 of shard 'up', k 9",
    ),
]
BLOCK_FAULTS = [
    Fault("scales transposed", transposed_scales, "gate_up"),
    Fault(
        "a scale of one block",
        on_parameter("w13_weight_scale_inv", scaled((2, 1, 1), 1.005)),
        "gate_up",
        "expert 2, K block 1 (k 128..255) of shard 'up'",
    ),
    Fault(
        "h's codes truncated",
        around("quantise_hidden", truncated),
        "down on ties of h",
    ),
]
PLANTED = [(TENSOR, fault) for fault in [*ANY_METHOD, *TENSOR_FAULTS]]
PLANTED += [(BLOCKS, fault) for fault in BLOCK_FAULTS]


@pytest.mark.parametrize("case", [TENSOR, BLOCKS], ids=["tensor", "block"])
def test_the_layer_is_right_before_a_fault_is_planted(case: MoeCase) -> None:
    assert findings_of(case, None) == set()


@pytest.mark.parametrize(
    ("case", "fault"), PLANTED, ids=[f"{c.method.format.name}-{f.name}" for c, f in PLANTED]
)
def test_fault_is_caught_and_named(case: MoeCase, fault: Fault) -> None:
    require_found(case, fault)
