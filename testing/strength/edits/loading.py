"""Faults on a weight's way in: what a wrong checkpoint reader or a wrong loader does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from layers.parameter import ShardedParameter
from testing.harness.linear import Named
from testing.strength.linear_bench import in_code

Stream = Iterator[Named]


def shards_renamed(tensors: Stream) -> Stream:
    """gate's tensors are called up's, and the other way round."""
    for name, tensor in tensors:
        swapped = name.replace("gate_", "?_").replace("up_", "gate_").replace("?_", "up_")
        yield swapped, tensor


def renamed(suffix: str) -> Callable[[Stream], Stream]:
    """Only the tensors with that suffix, such as `weight_scale`, change their shard."""

    def change(tensors: Stream) -> Stream:
        for name, tensor in tensors:
            if name.endswith(f".{suffix}"):
                name = next(shards_renamed(iter([(name, tensor)])))[0]
            yield name, tensor

    return change


def last_k_block_zero(tensors: Stream) -> Stream:
    """A quarter of K of up's codes is lost."""
    for name, tensor in tensors:
        if name.endswith("up_proj.weight"):
            tensor = tensor.clone()
            tensor.view(torch.uint8)[:, -(tensor.shape[1] // 4) :] = 0
        yield name, tensor


def _forgetful(copy: Callable[..., None]) -> Callable[..., None]:
    def forget(self: ShardedParameter, shard: Any, loaded: torch.Tensor) -> None:
        if getattr(shard, "id", None) != 1:
            copy(self, shard, loaded)

    return forget


shard_forgotten = in_code(ShardedParameter, "_copy", _forgetful)
