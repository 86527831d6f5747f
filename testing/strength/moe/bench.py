"""Fused MoE layers to plant faults in, and the ways by which a fault gets into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
import torch

from layers.moe.topk import TopKConfig, TopKOutput
from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import LoadedMoe, MoeCase, MoeMethod, build
from testing.harness.moe.names import Named
from testing.harness.verdict import Verdict
from testing.moe.moe_cases import DEEPSEEK
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.strength.fault import Bench, Plant

Stream = Iterator[Named]
Select = Callable[[torch.Tensor, TopKConfig, torch.Tensor | None], TopKOutput]


@dataclass(frozen=True)
class MoeBench(Bench):
    """One MoE layer's case, with a checkpoint and questions from `seed`."""

    case: MoeCase
    seed: int = 40

    @cached_property
    def checkpoint(self) -> MoeCheckpoint:
        """What the layer should hold."""
        return self.case.checkpoint(np.random.default_rng(self.seed))

    def build(self, change: Callable[[Stream], Stream] = lambda tensors: tensors) -> LoadedMoe:
        """The layer on this pool's device; `change` alters the checkpoint on its way in."""
        return build(self.case, self.checkpoint, device(), change)

    def examine(self, loaded: LoadedMoe) -> Verdict:
        """With the probes of the layer tests; nothing is recorded."""
        return examine(
            loaded, self.checkpoint, np.random.default_rng(self.seed + 1), recorded=False
        )


def benches(method: MoeMethod, backend: str = "torch") -> dict[str, Bench]:
    """Plain; with DeepSeek's router and a shared expert; with gpt-oss's activation and biases."""
    plain = MoeCase(method, 32, 4, 256, 128, backend=backend)
    router = replace(plain, tokens=9, experts=8, routing=DEEPSEEK, with_correction=True)
    gated = replace(plain, activation="swiglu_oai", bias=True)
    return {
        "plain": MoeBench(plain),
        "router": MoeBench(router),
        "gated": MoeBench(gated),
    }


def in_layer(edit: Callable[[Any], None]) -> Plant:
    """Edit the loaded layer: its parameters' storage, or what its method holds."""

    def plant(bench: MoeBench, stack: ExitStack) -> LoadedMoe:
        loaded = bench.build()
        edit(loaded.layer)
        return loaded

    return plant


def in_router(change: Callable[..., TopKOutput]) -> Plant:
    """Replace the choice of experts by `change(original, logits, config, correction)`."""

    def edit(layer: Any) -> None:
        original = layer.select_experts
        layer.select_experts = lambda *args: change(original, *args)

    return in_layer(edit)


def in_stage(name: str, change: Callable[..., Any]) -> Plant:
    """Replace a stage of the method by `change(original, *its arguments)`."""

    def edit(layer: Any) -> None:
        original = getattr(layer.quant_method, name)
        setattr(
            layer.quant_method, name, lambda *args, **options: change(original, *args, **options)
        )

    return in_layer(edit)


def in_stream(change: Callable[[Stream], Stream]) -> Plant:
    """Alter the checkpoint's tensors on their way into the layer, as a wrong reader does."""
    return lambda bench, stack: bench.build(change)


def in_code(owner: object, name: str, wrap: Callable[[Any], Any]) -> Plant:
    """Replace `owner.name`, a function of the loader or of post-load, by `wrap(original)`."""

    def plant(bench: MoeBench, stack: ExitStack) -> LoadedMoe:
        stack.enter_context(mock.patch.object(owner, name, wrap(getattr(owner, name))))
        return bench.build()

    return plant
