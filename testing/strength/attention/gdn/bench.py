"""Gated delta layers to plant faults in, and the ways by which a fault gets into one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from layers.attention.gdn.layer import GatedDeltaNet
from testing.attention.gdn import cases
from testing.attention.gdn.examine import examine
from testing.attention.gdn.layer import GdnCase, build
from testing.harness.device import device
from testing.harness.verdict import Verdict
from testing.oracles.attention.gdn.gdn import GdnCall, GdnShape
from testing.strength.fault import Bench, Plant

SQUARE = GdnShape(k_heads=2, v_heads=4, k_dim=32, v_dim=32)
"""Keys as long as values, so that a state can be transposed unseen."""


@dataclass(frozen=True)
class GdnBench(Bench):
    """One layer's case, with weights and a call from `seed`."""

    case: GdnCase
    seed: int = 60

    @cached_property
    def call(self) -> GdnCall:
        """Weights, inputs and states."""
        return self.case.call(np.random.default_rng(self.seed))

    def build(self) -> GatedDeltaNet:
        """The layer on this pool's device."""
        return build(self.case, self.call, device())

    def examine(self, loaded: GatedDeltaNet) -> Verdict:
        """As the layer tests do; nothing is recorded."""
        return examine(loaded, self.case, self.call, recorded=False, replicas=8)


EXTEND = GdnCase("extend", (65, 3, 20), (True, False, True), shape=SQUARE)
DECODE = replace(cases.DECODE[1], lengths=(1,) * 4, shape=SQUARE)
BENCHES = {
    "gdn": {
        "extend": GdnBench(EXTEND),
        "decode": GdnBench(DECODE),
        "fresh": GdnBench(replace(EXTEND, initial=(False,) * 3)),
    }
}


def in_step(module: ModuleType, name: str, change: Callable[..., Any]) -> Plant:
    """Replace a function of a torch backend by `change(original, *its arguments)`."""

    def plant(bench: GdnBench, stack: ExitStack) -> GatedDeltaNet:
        original = getattr(module, name)
        replaced = mock.patch.object(module, name, lambda *a, **o: change(original, *a, **o))
        stack.enter_context(replaced)
        return bench.build()

    return plant


def in_layer(name: str, change: Callable[..., Any]) -> Plant:
    """Replace `convolve`, `gates` or `delta_rule` by `change(original, *its arguments)`."""

    def plant(bench: GdnBench, stack: ExitStack) -> GatedDeltaNet:
        layer = bench.build()
        original = getattr(layer, name)
        setattr(layer, name, lambda *a, **o: change(original, *a, **o))
        return layer

    return plant


def in_loaded(edit: Callable[[Any], None]) -> Plant:
    """Edit the loaded layer."""

    def plant(bench: GdnBench, stack: ExitStack) -> GatedDeltaNet:
        layer = bench.build()
        edit(layer)
        return layer

    return plant
