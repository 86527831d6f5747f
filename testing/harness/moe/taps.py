"""Record what passes between the stages of a layer's forward, and hand over another h.

A tap never computes: it keeps what the layer's own stages gave each other. Only where it is asked
to, it puts a given h in the place of the activation's result, to see the second product alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from testing.harness.moe.layer import LoadedMoe
from testing.harness.tensors import floats_to_torch, to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.moe.routing import Int64


@dataclass
class Tape:
    """What passed in one forward; pairs are row t·K + k for token t's k-th choice.

    ids, weights: (T, K) of the router. gate_up: (T·K, 2I). hidden: (T·K, I). down: (T·K, H), before
    its weight.
    """

    ids: Int64 = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    weights: Float64 = field(default_factory=lambda: np.zeros((0, 0)))
    gate_up: Float64 = field(default_factory=lambda: np.zeros((0, 0)))
    hidden: Float64 = field(default_factory=lambda: np.zeros((0, 0)))
    down: Float64 = field(default_factory=lambda: np.zeros((0, 0)))

    def keep(self, name: str, tensor: torch.Tensor) -> None:
        """Store a copy."""
        setattr(self, name, to_numpy(tensor).copy())


@contextmanager
def taped(loaded: LoadedMoe, hidden: Float64 | None = None) -> Iterator[Tape]:
    """A forward in this context leaves its intermediate values on the tape.

    hidden: (T·K, I), exact in the layer's dtype, to take the place of the activation's result.
    """
    layer: Any = loaded.layer
    method: Any = layer.quant_method
    tape = Tape()
    kept = layer.select_experts, method.activate, method.combine

    def select_experts(*args: Any, **options: Any) -> Any:
        chosen = kept[0](*args, **options)
        tape.ids = chosen.ids.cpu().numpy().astype(np.int64)
        tape.weights = to_numpy(chosen.weights)
        return chosen

    def activate(gate_up: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        tape.keep("gate_up", gate_up)
        own: torch.Tensor = kept[1](gate_up, *args, **options)
        h = own if hidden is None else floats_to_torch(hidden, own.dtype, own.device)
        tape.keep("hidden", h)
        return h

    def combine(down: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        tape.keep("down", down)
        output: torch.Tensor = kept[2](down, *args, **options)
        return output

    layer.select_experts, method.activate, method.combine = select_experts, activate, combine
    try:
        yield tape
    finally:
        layer.select_experts, method.activate, method.combine = kept
