"""Attention layers to plant faults in, and the ways by which a fault gets into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from layers.kernels.attention import attend_torch
from testing.harness.attention.case import TREE, AttentionCase, Call, prefixes
from testing.harness.attention.examine import examine
from testing.harness.attention.layer import LoadedAttention, build
from testing.harness.device import device
from testing.harness.verdict import Verdict
from testing.strength.fault import Bench, Plant

EXTEND = (
    Call("extend", ((1, 15), (14, 17), (33, 5)), order="shuffled"),
    Call("extend", ((16, 3), (40, 9)), order="interleaved", shared_pages=1),
)
DECODE = (Call("decode", prefixes([1, 15, 47, 130])),)
CHAIN = (Call("draft", prefixes([3, 16, 60], 5)),)
DRAFT = (Call("draft", prefixes([3, 16, 60], 7), TREE),)


@dataclass(frozen=True)
class AttentionBench(Bench):
    """One layer's case, and the calls that it is asked, from `seed`."""

    case: AttentionCase
    calls: Sequence[Call]
    seed: int = 60

    def build(self) -> LoadedAttention:
        """The layer on this pool's device."""
        return build(self.case, np.random.default_rng(self.seed), device())

    def examine(self, loaded: LoadedAttention) -> Verdict:
        """As the layer tests do; nothing is recorded."""
        return examine(loaded, self.calls, np.random.default_rng(self.seed + 1), recorded=False)


def benches(window: int | None) -> dict[str, Bench]:
    """Each mode alone, and layers with a soft cap, sinks, and an fp8 cache."""
    plain = AttentionCase(8, 2, 64, window=window)
    prompts = (*EXTEND, *DECODE)
    return {
        "extend": AttentionBench(plain, EXTEND),
        "decode": AttentionBench(plain, DECODE),
        "draft": AttentionBench(plain, DRAFT),
        "chain": AttentionBench(plain, CHAIN),
        "fp16": AttentionBench(replace(plain, dtype="float16"), prompts),
        "cap": AttentionBench(replace(plain, soft_cap=3.0), prompts),
        "sinks": AttentionBench(replace(plain, sinks=True), prompts),
        "fp8": AttentionBench(replace(plain, fp8=True), prompts),
    }


def in_step(name: str, change: Callable[..., Any]) -> Plant:
    """Replace a function of the torch backend by `change(original, *its arguments)`."""

    def plant(bench: AttentionBench, stack: ExitStack) -> LoadedAttention:
        original = getattr(attend_torch, name)
        replaced = mock.patch.object(attend_torch, name, lambda *a, **o: change(original, *a, **o))
        stack.enter_context(replaced)
        return bench.build()

    return plant


def in_layer(name: str, change: Callable[..., Any]) -> Plant:
    """Replace `attend` or `write_cache` of the layer by `change(original, *its arguments)`."""

    def plant(bench: AttentionBench, stack: ExitStack) -> LoadedAttention:
        loaded = bench.build()
        original = getattr(loaded.layer, name)
        setattr(loaded.layer, name, lambda *a, **o: change(original, *a, **o))
        return loaded

    return plant
