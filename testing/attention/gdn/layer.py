"""A real gated delta layer, built from a checkpoint as a model does, and one call of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from layers.attention.gdn.layer import GatedDeltaNet
from layers.attention.gdn.metadata import GDNMetadata
from layers.attention.gdn.state import GDNState
from layers.weights import load_weights, process_weights_after_loading
from testing.harness import backend_table
from testing.harness.memory import poisoned_memory
from testing.harness.tensors import DTYPES, KINDS, floats_to_torch, to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.gdn import GdnCall, GdnShape
from testing.oracles.attention.gdn.inputs import random_call
from testing.oracles.rounding import FloatType

PREFIX = "model.layers.0.linear_attn"
SMALL = GdnShape(k_heads=2, v_heads=4, k_dim=32, v_dim=48)
QWEN = GdnShape(k_heads=2, v_heads=4, k_dim=128, v_dim=128)
"""Head sizes of Qwen3-Next and Qwen3.5, with the heads of one rank of eight."""
Named = tuple[str, torch.Tensor]


@dataclass(frozen=True)
class GdnCase:
    """One layer and one call of it.

    mode: "extend" or "decode". lengths: tokens of each request.
    initial: which of them bring a state; () all.
    shuffled: slots in no order; else one after another.
    spread, blank: of `random_call`: how wide gates are, and first tokens that are zero.
    """

    mode: str
    lengths: tuple[int, ...]
    initial: tuple[bool, ...] = ()
    shuffled: bool = True
    shape: GdnShape = SMALL
    dtype: str = "bfloat16"
    backend: str = "torch"
    spread: float = 1.0
    blank: int = 0

    @property
    def kind(self) -> FloatType:
        """The float type of inputs and output."""
        return KINDS[self.dtype]

    @property
    def brings(self) -> tuple[bool, ...]:
        """Of each request, whether it brings a state."""
        return self.initial or (True,) * len(self.lengths)

    @property
    def subject(self) -> str:
        """As messages name it."""
        lengths = "+".join(map(str, self.lengths))
        states = "".join("s" if brings else "-" for brings in self.brings)
        s = self.shape
        odd = f", gates of {self.spread:g}" if self.spread != 1 else ""
        odd += f", {self.blank} zero tokens" if self.blank else ""
        return (
            f"GDN layer ({self.backend}, {self.dtype}, {self.mode} {lengths}, states {states}, "
            f"{'shuffled' if self.shuffled else 'ordered'} slots, {s.k_heads}x{s.k_dim} keys, "
            f"{s.v_heads}x{s.v_dim} values, width {s.width}{odd})"
        )

    def call(self, rng: np.random.Generator) -> GdnCall:
        """Random weights, inputs and states; slots of no request are NaN."""
        count = len(self.lengths)
        slots = rng.permutation(count + 3)[:count] if self.shuffled else np.arange(count)
        return random_call(
            *(rng, self.shape, self.kind, self.lengths, self.brings),
            slots=tuple(int(slot) for slot in slots),
            num_slots=count + 3,
            spread=self.spread,
            blank=self.blank,
        )


def checkpoint_tensors(call: GdnCall, dtype: torch.dtype) -> Iterator[Named]:
    """As a file holds them."""
    yield f"{PREFIX}.conv1d.weight", floats_to_torch(call.conv, dtype)[:, None]
    yield f"{PREFIX}.A_log", floats_to_torch(call.a_log, torch.float32)
    yield f"{PREFIX}.dt_bias", floats_to_torch(call.dt_bias, torch.float32)


def new_layer(case: GdnCase, device: torch.device | str, **options: Any) -> GatedDeltaNet:
    """The layer as a model constructs it, with no weights yet."""
    shape = case.shape
    return GatedDeltaNet(
        *(shape.k_heads, shape.v_heads, shape.k_dim, shape.v_dim, shape.width),
        params_dtype=DTYPES[case.dtype],
        prefix=PREFIX,
        backend=case.backend,
        device=device,
        **options,
    )


def model_of(layer: torch.nn.Module) -> torch.nn.Module:
    """The layer within its parents, so that checkpoint names lead to it."""
    root = module = torch.nn.Module()
    *parents, leaf = PREFIX.split(".")
    for name in parents:
        child = torch.nn.Module()
        module.add_module(name, child)
        module = child
    module.add_module(leaf, layer)
    return root


def build(
    case: GdnCase,
    call: GdnCall,
    device: torch.device | str,
    change: Callable[[Iterator[Named]], Iterator[Named]] = lambda tensors: tensors,
    **options: Any,
) -> GatedDeltaNet:
    """Construct, load and post-process, in poisoned memory; `change` alters the checkpoint."""
    with poisoned_memory():
        layer = new_layer(case, device, **options)
        model = model_of(layer)
        load_weights(model, change(checkpoint_tensors(call, DTYPES[case.dtype])))
        process_weights_after_loading(model)
    return layer


@dataclass(frozen=True)
class Inputs:
    """A call's arguments, as tensors on the layer's device."""

    mixed: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    state: GDNState
    metadata: GDNMetadata

    def forward(self, layer: GatedDeltaNet) -> Float64:
        """(T, Hv, Dv)."""
        with poisoned_memory():
            out = layer(self.mixed, self.a, self.b, self.state, self.metadata)
        return to_numpy(out)


def inputs_of(layer: GatedDeltaNet, case: GdnCase, call: GdnCall) -> Inputs:
    """Fresh tensors and a fresh state."""
    device, dtype = layer.device, DTYPES[case.dtype]
    mixed, a, b = (floats_to_torch(x, dtype, device) for x in (call.mixed, call.a, call.b))
    state = layer.new_state(len(call.state))
    state.conv.copy_(floats_to_torch(call.conv_state, dtype))
    state.ssm.copy_(floats_to_torch(call.state, torch.float32))
    return Inputs(mixed, a, b, state, metadata_of(case.mode, call, device))


def metadata_of(mode: str, call: GdnCall, device: torch.device | str) -> GDNMetadata:
    """Of the batch."""
    if mode == "decode":
        return GDNMetadata.decode(list(call.slots), device)
    return GDNMetadata.extend(list(call.lengths), list(call.slots), list(call.initial), device)


def count_run(layer: GatedDeltaNet, mode: str) -> None:
    """Have the backends of a call in the table at the end of the test."""
    operation = f"gdn_{mode}"
    backend_table.count_run(
        {name: layer.backends[name] for name in ("gdn_conv", operation)},
    )
