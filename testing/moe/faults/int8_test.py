"""Faults planted in an int8 MoE layer are caught, and named, by the layer's own probes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import layers.moe.quantization.int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from testing.harness.moe.layer import MoeCase
from testing.moe.faults.any_method import ANY_METHOD
from testing.moe.faults.fault import (
    Fault,
    around,
    findings_of,
    on_parameter,
    one_step,
    require_found,
    scaled,
    swapped,
)
from testing.moe.int8.methods import CHANNEL

CASE = MoeCase(CHANNEL, 16, 4, 128, 64, bias=True)


def truncated(original: Any, h: torch.Tensor) -> Any:
    """Towards zero."""
    codes, scales = original(h)
    down = (h.float() / scales).trunc()
    return torch.where(down.isfinite(), down, codes).to(codes.dtype), scales


ROWS = CASE.intermediate
GATE, UP = slice(None, ROWS), slice(ROWS, None)
FAULTS = [
    Fault(
        "up of one expert 0.2% large",
        on_parameter("w13_weight_scale", scaled((2, UP), 1.002)),
        "gate_up",
        "expert 2, shard 'up'",
    ),
    Fault(
        "w2 of one expert 0.2% large",
        on_parameter("w2_weight_scale", scaled((1,), 1.002)),
        "down on the lossless grid",
        "expert 1, the whole output",
    ),
    Fault(
        "a scale of one row of gate",
        on_parameter("w13_weight_scale", scaled((3, 5), 1.005)),
        "gate_up",
        "expert 3, column 5 of shard 'gate'",
    ),
    Fault(
        "one byte of gate and up",
        on_parameter("w13_weight", one_step((1, ROWS + 7, 9))),
        "readback of gate and up",
        "expert 1, shard 'up', row 7 of shard 'up', k 9",
    ),
    Fault(
        "one byte of down",
        on_parameter("w2_weight", one_step((3, 100, 63))),
        "readback of down",
        "expert 3, shard '', row 100, k 63",
    ),
    Fault(
        "gate and up of one expert swapped",
        on_parameter("w13_weight", swapped((2, GATE), (2, UP))),
        "readback of gate and up",
        "expert 2, shard 'gate', row 0 of shard 'gate', k 0",
    ),
    Fault(
        "scales of two experts swapped",
        on_parameter("w2_weight_scale", swapped((0,), (1,))),
        "down on the lossless grid",
        "expert 0, the whole output",
    ),
    Fault(
        "h's codes truncated",
        around("quantise_hidden", truncated),
        "down on ties of h",
        "expert 0, elements",
    ),
    Fault(
        "x halved after use",
        around("quantise_input", lambda original, x: (original(x), x.mul_(0.5))[0]),
        "memory",
        "x",
    ),
]


def test_the_layer_is_right_before_a_fault_is_planted() -> None:
    assert findings_of(CASE, None) == set()


@pytest.mark.parametrize("fault", [*ANY_METHOD, *FAULTS], ids=lambda fault: fault.name)
def test_fault_is_caught_and_named(fault: Fault) -> None:
    require_found(CASE, fault)
