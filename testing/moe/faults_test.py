"""Faults planted in MoE layers are caught, and named, by the probes of the layers' own tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import layers.moe.quantization.int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import LoadedMoe, MoeCase, build
from testing.moe.int8.methods import CHANNEL

CASE = MoeCase(CHANNEL, 16, 4, 128, 64, bias=True)


@dataclass(frozen=True)
class Fault:
    """plant: changes a ready layer. check, place: of a finding that there must be."""

    name: str
    plant: Callable[[LoadedMoe], None]
    check: str
    place: str


def parameter(loaded: LoadedMoe, name: str) -> torch.Tensor:
    data: torch.Tensor = loaded.layer.get_parameter(name).data
    return data


def on_parameter(name: str, change: Callable[[torch.Tensor], Any]) -> Callable[[LoadedMoe], None]:
    def plant(loaded: LoadedMoe) -> None:
        change(parameter(loaded, name))

    return plant


def around(seam: str, change: Callable[..., Any]) -> Callable[[LoadedMoe], None]:
    """Replace a stage of the method by `change(original, *arguments)`."""

    def plant(loaded: LoadedMoe) -> None:
        owner: Any = loaded.layer if seam == "select_experts" else loaded.layer.quant_method
        original = getattr(owner, seam)
        setattr(owner, seam, lambda *args, **options: change(original, *args, **options))

    return plant


def scaled(part: tuple[Any, ...], gain: float) -> Callable[[torch.Tensor], Any]:
    return lambda tensor: tensor[part].mul_(gain)


def swapped(a: Any, b: Any) -> Callable[[torch.Tensor], Any]:
    def change(tensor: torch.Tensor) -> None:
        kept = tensor[a].clone()
        tensor[a] = tensor[b]
        tensor[b] = kept

    return change


def one_step(part: tuple[int, ...]) -> Callable[[torch.Tensor], Any]:
    return lambda tensor: tensor[part].add_(1)


def other_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[LoadedMoe], None]:
    def select(original: Any, *args: Any) -> Any:
        chosen = original(*args)
        return chosen._replace(weights=change(chosen.weights))

    return around("select_experts", select)


def other_ids(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[LoadedMoe], None]:
    def select(original: Any, *args: Any) -> Any:
        chosen = original(*args)
        return chosen._replace(ids=change(chosen.ids))

    return around("select_experts", select)


def truncated(original: Any, h: torch.Tensor) -> Any:
    codes, scales = original(h)
    down = (h.float() / scales).trunc()
    return torch.where(down.isfinite(), down, codes).to(codes.dtype), scales


def rounded_sum(original: Any, down: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    parts = down.view(*weights.shape, -1) * weights.unsqueeze(-1)
    total = torch.zeros_like(parts[:, 0], dtype=torch.bfloat16)
    for part in parts.unbind(1):
        total = total + part.to(torch.bfloat16)
    return total


def twice_rounded(original: Any, gate_up: torch.Tensor) -> torch.Tensor:
    h: torch.Tensor = original(gate_up.bfloat16().float())
    return h


def nan_swallowed(original: Any, down: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    total: torch.Tensor = original(down.nan_to_num(0.0), weights.nan_to_num(0.0))
    return total


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
        "another expert's bias",
        on_parameter("w13_bias", swapped((0,), (3,))),
        "readback of gate and up",
        "expert 0, shard 'gate', row 0 of shard 'gate', k 0",
    ),
    Fault(
        "weights that are not renormalised",
        other_weights(lambda w: w * 0.9),
        "routing",
        "token 0, expert 3",
    ),
    Fault(
        "weights of the wrong choice",
        other_weights(lambda w: w.flip(1)),
        "routing",
        "token 0, expert 3",
    ),
    Fault("the next expert", other_ids(lambda ids: (ids + 1) % 4), "routing", "token 0"),
    Fault(
        "gate and up change places before the activation",
        around("activate", lambda original, g: original(g.roll(ROWS, 1))),
        "activation",
        "elements",
    ),
    Fault(
        "gate and up rounded before the activation",
        around("activate", twice_rounded),
        "activation",
        "elements",
    ),
    Fault(
        "h truncated",
        around("activate", lambda original, g: original(g).mul(1 - 2.0**-8)),
        "activation",
        "the whole output",
    ),
    Fault(
        "h's codes truncated",
        around("quantise_hidden", truncated),
        "down on ties of h",
        "expert 0, elements",
    ),
    Fault("a sum in bfloat16", around("combine", rounded_sum), "combine", "elements"),
    Fault(
        "weights of 1",
        around("combine", lambda original, d, w: original(d, torch.ones_like(w))),
        "combine",
        "elements",
    ),
    Fault("a NaN swallowed", around("combine", nan_swallowed), "containment", "row 15"),
    Fault(
        "x halved after use",
        around("quantise_input", lambda original, x: (original(x), x.mul_(0.5))[0]),
        "memory",
        "x",
    ),
]


def findings_of(fault: Fault | None, case: MoeCase = CASE) -> set[tuple[str, str]]:
    rng = np.random.default_rng(40)
    checkpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device())
    if fault is not None:
        fault.plant(loaded)
    verdict = examine(loaded, checkpoint, rng, recorded=False)
    return {(f.check, f.place) for f in verdict.findings}


def test_the_layer_is_right_before_a_fault_is_planted() -> None:
    assert findings_of(None) == set()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_and_named(fault: Fault) -> None:
    found = findings_of(fault)
    assert (fault.check, fault.place) in found, f"found {sorted(found)}"
