"""How a fault is planted in a ready MoE layer, and what of it the layer's own probes find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import LoadedMoe, MoeCase, build
from testing.oracles.moe.checkpoints import MoeCheckpoint

Plant = Callable[[LoadedMoe], None]


@dataclass(frozen=True)
class Fault:
    """A fault, and the check and place of a finding that there must be; '' is any place."""

    name: str
    plant: Plant
    check: str
    place: str = ""


def on_parameter(name: str, change: Callable[[torch.Tensor], Any]) -> Plant:
    """Change a parameter in place."""

    def plant(loaded: LoadedMoe) -> None:
        change(loaded.layer.get_parameter(name).data)

    return plant


def around(seam: str, change: Callable[..., Any]) -> Plant:
    """Replace a stage of the method by `change(original, *arguments)`."""

    def plant(loaded: LoadedMoe) -> None:
        owner: Any = loaded.layer if seam == "select_experts" else loaded.layer.quant_method
        original = getattr(owner, seam)
        setattr(owner, seam, lambda *args, **options: change(original, *args, **options))

    return plant


def scaled(part: tuple[Any, ...], gain: float) -> Callable[[torch.Tensor], Any]:
    """A part of a float tensor times a gain."""
    return lambda tensor: tensor[part].mul_(gain)


def swapped(a: Any, b: Any) -> Callable[[torch.Tensor], Any]:
    """Two parts of a tensor in each other's place."""

    def change(tensor: torch.Tensor) -> None:
        kept = tensor[a].clone()
        tensor[a] = tensor[b]
        tensor[b] = kept

    return change


def one_step(part: tuple[int, ...]) -> Callable[[torch.Tensor], Any]:
    """The lowest bit of a byte, or of a code, the other way."""
    return lambda tensor: tensor.view(torch.uint8)[part].bitwise_xor_(1)


def other_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Plant:
    """Of the router."""

    def select(original: Any, *args: Any) -> Any:
        chosen = original(*args)
        return chosen._replace(weights=change(chosen.weights))

    return around("select_experts", select)


def other_ids(change: Callable[[torch.Tensor], torch.Tensor]) -> Plant:
    """Of the router."""

    def select(original: Any, *args: Any) -> Any:
        chosen = original(*args)
        return chosen._replace(ids=change(chosen.ids))

    return around("select_experts", select)


def findings_of(case: MoeCase, fault: Fault | None) -> set[tuple[str, str]]:
    """(check, place) of everything that the probes find."""
    rng = np.random.default_rng(40)
    checkpoint: MoeCheckpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device())
    if fault is not None:
        fault.plant(loaded)
    verdict = examine(loaded, checkpoint, rng, recorded=False)
    return {(f.check, f.place) for f in verdict.findings}


def require_found(case: MoeCase, fault: Fault) -> None:
    """The fault is caught by the check, at the place, that it names."""
    found = findings_of(case, fault)
    hit = any(check == fault.check and fault.place in (place, "") for check, place in found)
    assert hit, f"'{fault.name}' wants {fault.check}, {fault.place!r}; found {sorted(found)}"
