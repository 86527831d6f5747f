"""Faults planted in FP4 MoE layers are caught, and named, by the layers' own probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4  # noqa: F401 all register themselves
from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import MoeCase, build
from testing.harness.moe.names import Named
from testing.moe.faults.any_method import ANY_METHOD
from testing.moe.faults.fault import (
    Fault,
    findings_of,
    on_parameter,
    one_step,
    require_found,
    swapped,
)
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.fp4.nvfp4_methods import W4A4

NVFP4 = MoeCase(W4A4, 16, 4, 128, 64, bias=True, backend="torch")
GPT_OSS = replace(NVFP4, method=MXFP4, activation="swiglu_oai", naming="gpt_oss", backend="torch")


def nibbles_swapped(weight: torch.Tensor) -> None:
    """The high nibble for the even k."""
    weight.copy_((weight >> 4) | (weight << 4))


def off_by_one(scale: torch.Tensor) -> None:
    """Each scale in its neighbour's place."""
    scale.copy_(scale.view(torch.uint8).roll(1, -1).view(scale.dtype))


def folded(scale: torch.Tensor) -> None:
    """The larger of gate's and up's global scales for both."""
    scale.copy_(scale.amax(1, keepdim=True).expand_as(scale))


SHARED_FAULTS = [
    Fault("nibbles swapped", on_parameter("w2_weight", nibbles_swapped), "readback of down"),
    Fault(
        "block scales off by one",
        on_parameter("w13_weight_scale", off_by_one),
        "readback of gate and up",
    ),
    Fault(
        "one byte of a block scale",
        on_parameter("w2_weight_scale", one_step((2, 5, 0))),
        "readback of down",
    ),
    Fault(
        "one code",
        on_parameter("w13_weight", one_step((3, 64 + 10, 4))),
        "readback of gate and up",
        "expert 3, shard 'up', row 10 of shard 'up', k 8",
    ),
    Fault(
        "block scales of two experts",
        on_parameter("w2_weight_scale", swapped((0,), (1,))),
        "readback of down",
    ),
]
NVFP4_FAULTS = [
    Fault("global scales folded", on_parameter("w13_weight_scale_2", folded), "gate_up"),
    Fault(
        "a global scale one float32 step in a thousand off",
        on_parameter("w2_weight_scale_2", lambda t: t[1].mul_(1.001)),
        "down on the lossless grid",
        "expert 1, the whole output",
    ),
    Fault(
        "input scale of one expert",
        on_parameter("w2_input_scale", lambda t: t[2].mul_(2)),
        "down on the lossless grid",
    ),
]
PLANTED = [(NVFP4, f) for f in [*ANY_METHOD, *SHARED_FAULTS, *NVFP4_FAULTS]]
PLANTED += [(GPT_OSS, f) for f in [*ANY_METHOD, *SHARED_FAULTS]]


@pytest.mark.parametrize("case", [NVFP4, GPT_OSS], ids=["nvfp4", "mxfp4"])
def test_the_layer_is_right_before_a_fault_is_planted(case: MoeCase) -> None:
    assert findings_of(case, None) == set()


@pytest.mark.parametrize(
    ("case", "fault"), PLANTED, ids=[f"{c.method.format.name}-{f.name}" for c, f in PLANTED]
)
def test_fault_is_caught_and_named(case: MoeCase, fault: Fault) -> None:
    require_found(case, fault)


def halves(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """gate's rows before up's, where the checkpoint has them in turn."""
    return lambda t: torch.cat([t[:, 0::2], t[:, 1::2]], dim=1) if "gate_up" in name else t


@pytest.mark.parametrize("leaf", ["blocks", "scales", "bias"])
def test_rows_that_are_not_in_turn_are_found(leaf: str) -> None:
    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for name, tensor in tensors:
            yield name, halves(name)(tensor) if name.endswith(leaf) else tensor

    rng = np.random.default_rng(41)
    checkpoint = GPT_OSS.checkpoint(rng)
    loaded = build(GPT_OSS, checkpoint, device(), change)
    verdict = examine(loaded, checkpoint, rng, recorded=False)
    assert "readback of gate and up" in {f.check for f in verdict.findings}, str(verdict)
