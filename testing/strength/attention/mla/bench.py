"""MLA layers to plant faults in, and the ways by which a fault gets into one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from layers.attention.mla.parts import split_by_head
from layers.kernels.mla import absorbed_torch, unabsorbed_torch
from testing.attention.mla import cases
from testing.attention.mla.call import Call, random_call
from testing.attention.mla.examine import examine
from testing.attention.mla.layer import SMALL, LoadedMla, MlaCase, build
from testing.attention.mla.methods import QUANTISED
from testing.harness.device import device
from testing.harness.verdict import Verdict
from testing.oracles.attention.mla.mla import MlaShape
from testing.oracles.attention.rope.rope import Rope
from testing.oracles.checkpoints import LinearCheckpoint
from testing.strength.fault import Bench, Plant

SQUARE = MlaShape(heads=4, nope=32, v=32, rank=32, rope=Rope(16))
"""W_UK and W_UV of one shape, which can be swapped or transposed unseen."""
ABSORBED, UNABSORBED = absorbed_torch, unabsorbed_torch


@dataclass(frozen=True)
class MlaBench(Bench):
    """One layer's case, with a checkpoint and a call from `seed`."""

    case: MlaCase
    seed: int = 60

    @cached_property
    def checkpoint(self) -> LinearCheckpoint:
        """What the layer should hold."""
        return self.case.checkpoint(np.random.default_rng(self.seed))

    @cached_property
    def call(self) -> Call:
        """What it is asked."""
        return random_call(self.case, self.checkpoint, np.random.default_rng(self.seed + 1))

    def build(self) -> LoadedMla:
        """The layer on this pool's device."""
        return build(self.case, self.checkpoint, device())

    def examine(self, loaded: LoadedMla) -> Verdict:
        """As the layer tests do; nothing is recorded."""
        return examine(loaded, self.call, recorded=False)


def _benches() -> dict[str, Bench]:
    # No request is so short that a mask or a page could not be wrong in it.
    mixed = replace(cases.MIXED, query_lens=(17, 3, 16, 15), kv_lens=(37, 40, 50, 47))
    decode = MlaCase("decode", (1,) * 4, (33, 40, 64, 50))
    prompts = replace(cases.PROMPTS, query_lens=(33, 40, 36), kv_lens=(33, 40, 36))
    square = replace(mixed, shape=SQUARE)
    return {
        "extend": MlaBench(mixed),
        "decode": MlaBench(decode),
        "prompts": MlaBench(prompts),
        "square": MlaBench(square),
        "square prompts": MlaBench(replace(prompts, shape=SQUARE)),
        "chain": MlaBench(replace(cases.CHAIN, kv_lens=(40, 33, 35, 36))),
        "tree": MlaBench(replace(cases.DRAFT_TREE, kv_lens=(40, 33, 35, 37))),
        "int8": MlaBench(replace(mixed, method=QUANTISED[0])),
        "fp8 block": MlaBench(replace(mixed, method=QUANTISED[1], shape=replace(SMALL, rank=256))),
        "fp8 cache": MlaBench(replace(mixed, fp8_scale=0.02)),
    }


BENCHES = {"mla": _benches()}


def in_step(module: ModuleType, name: str, change: Callable[..., Any]) -> Plant:
    """Replace a function of a torch backend by `change(original, *its arguments)`."""

    def plant(bench: MlaBench, stack: ExitStack) -> LoadedMla:
        original = getattr(module, name)
        replaced = mock.patch.object(module, name, lambda *a, **o: change(original, *a, **o))
        stack.enter_context(replaced)
        return bench.build()

    return plant


def in_layer(name: str, change: Callable[..., Any]) -> Plant:
    """Replace a step of the loaded layer by `change(original, *its arguments)`."""

    def plant(bench: MlaBench, stack: ExitStack) -> LoadedMla:
        loaded = bench.build()
        original = getattr(loaded.layer, name)
        setattr(loaded.layer, name, lambda *a, **o: change(original, *a, **o))
        return loaded

    return plant


def in_loaded(edit: Callable[[Any], None]) -> Plant:
    """Edit the loaded layer."""

    def plant(bench: MlaBench, stack: ExitStack) -> LoadedMla:
        loaded = bench.build()
        edit(loaded.layer)
        return loaded

    return plant


def in_projection(change: Callable[[Any, Any], Any]) -> Plant:
    """Post-load takes `change(weight (H·(nope + v), R), spec)` for kv_b_proj's weight."""

    def plant(bench: MlaBench, stack: ExitStack) -> LoadedMla:
        replaced = mock.patch(
            "layers.attention.mla.layer.split_by_head",
            lambda weight, spec: split_by_head(change(weight, spec), spec),
        )
        stack.enter_context(replaced)
        return bench.build()

    return plant
