"""Linear layers to plant faults in, and the ways by which a fault gets into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np

from testing.harness.device import device
from testing.harness.linear import LinearCase, LoadedLinear, Named, build
from testing.harness.linear_probes import LINEAR_PROBES, Probe, examine
from testing.harness.verdict import Verdict
from testing.oracles.checkpoints import LinearCheckpoint, identity_checkpoint
from testing.strength.fault import Bench, Plant

Stream = Iterator[Named]


@dataclass(frozen=True)
class LinearBench(Bench):
    """One linear layer's case, with a checkpoint and questions from `seed`.

    identity: the weight is the identity, so that the output is the quantised input.
    """

    case: LinearCase
    seed: int = 20
    identity: bool = False

    @cached_property
    def checkpoint(self) -> LinearCheckpoint:
        """What the layer should hold."""
        if self.identity:
            return identity_checkpoint(self.case.method.format, self.case.k)
        return self.case.checkpoint(np.random.default_rng(self.seed))

    def build(self, change: Callable[[Stream], Stream] = lambda tensors: tensors) -> LoadedLinear:
        """The layer on this pool's device; `change` alters the checkpoint on its way in."""
        return build(self.case, self.checkpoint, device(), change)

    def examine(self, loaded: LoadedLinear, probes: tuple[Probe, ...] = LINEAR_PROBES) -> Verdict:
        """With the probes of the layer tests; nothing is recorded."""
        rng = np.random.default_rng(self.seed + 1)
        return examine(loaded, self.checkpoint, rng, probes, recorded=False)


def in_layer(edit: Callable[[LoadedLinear], None]) -> Plant:
    """Edit a loaded layer: its parameters' storage, which its kernels read, or its method."""

    def plant(bench: LinearBench, stack: ExitStack) -> LoadedLinear:
        loaded = bench.build()
        edit(loaded)
        return loaded

    return plant


def in_quantiser(change: Callable[..., Any]) -> Plant:
    """Replace x → (codes, scales) by `change(x, original)`."""

    def edit(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original = method.quantise
        method.quantise = lambda x: change(x, original)

    return in_layer(edit)


def in_product(change: Callable[..., Any]) -> Plant:
    """Replace the layer's product by `change(original, *its arguments)`."""

    def edit(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original = method.multiply
        method.multiply = lambda *args, **options: change(original, *args, **options)

    return in_layer(edit)


def in_stream(change: Callable[[Stream], Stream]) -> Plant:
    """Alter the checkpoint's tensors on their way into the layer, as a wrong reader does."""
    return lambda bench, stack: bench.build(change)


def in_code(owner: object, name: str, wrap: Callable[[Any], Any]) -> Plant:
    """Replace `owner.name`, a function of the loader or of post-load, by `wrap(original)`."""

    def plant(bench: LinearBench, stack: ExitStack) -> LoadedLinear:
        replaced = wrap(getattr(owner, name))
        stack.enter_context(mock.patch.object(owner, name, replaced))
        return bench.build()

    return plant
