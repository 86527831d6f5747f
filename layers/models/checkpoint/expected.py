"""Which checkpoint tensors a model wants, by the names that published checkpoints have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from layers.loadable import LoadableLayer
from layers.moe.layer import FusedMoE
from layers.moe.names import PROJECTIONS
from layers.moe.parameter import ExpertParameter
from layers.parameter import ShardedParameter
from layers.scale_parameter import PerTensorScaleParameter
from layers.sharding import Shard, ShardId


@dataclass(frozen=True)
class Wanted:
    """A tensor that a checkpoint has to hold.

    Attributes:
        shapes: those that it may have, the usual one first.
        dtypes: those that it may have.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: frozenset[torch.dtype]


# A layer of experts by its path -> its tensors by name.
OfExperts = Callable[[str, FusedMoE], Iterable[tuple[str, Wanted]]]


def wanted_tensors(
    model: torch.nn.Module,
    packed_modules: Mapping[str, Sequence[str]],
    of_experts: OfExperts,
) -> dict[str, Wanted]:
    """By name, those of every layer, as the model's modules are called.

    Args:
        model: of layers whose parameters are not loaded yet; the meta device does.
        packed_modules: the checkpoint modules of each fused layer, in the order of its shards.
        of_experts: `wanted_of_experts`, or what says so for another way to store experts.
    """
    found: dict[str, Wanted] = {}
    for path, module in model.named_modules():
        if isinstance(module, FusedMoE):
            found |= dict(of_experts(path, module))
        elif isinstance(module, LoadableLayer):
            found |= dict(_of_layer(path, module, packed_modules))
        elif any(True for _ in module.named_parameters(recurse=False)):
            raise TypeError(f"module '{path}' has parameters, but is no LoadableLayer")
    return found


def _of_layer(
    path: str, layer: LoadableLayer, packed_modules: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Wanted]]:
    parent, _, leaf = path.rpartition(".")
    for name, parameter in layer.named_parameters(recurse=False):
        assert isinstance(parameter, ShardedParameter), f"{path}.{name} is no checkpoint tensor"
        shards = parameter.linear_layout.shards
        modules = packed_modules[leaf] if len(shards) > 1 else [leaf]
        for module, shard in zip(modules, shards, strict=True):
            yield (
                f"{parent}.{module}.{name}" if parent else f"{module}.{name}",
                of(parameter, shard),
            )


def wanted_of_experts(path: str, layer: FusedMoE) -> Iterator[tuple[str, Wanted]]:
    """A tensor for each expert and matmul, "3.gate_proj.weight" (DeepSeek, Qwen)."""
    projections: dict[ShardId, str] = {shard: name for name, shard in PROJECTIONS.items()}
    for name, parameter in layer.named_parameters(recurse=False):
        assert isinstance(parameter, ExpertParameter), f"{path}.{name} is no checkpoint tensor"
        suffix = name.partition("_")[2]
        one = parameter.one
        for shard in one.linear_layout.shards:
            wanted = of(one, shard)
            for expert in range(layer.experts.experts.total):
                yield f"{path}.{expert}.{projections[shard.id]}.{suffix}", wanted


def of(parameter: ShardedParameter, shard: Shard) -> Wanted:
    """What a parameter wants for one of its shards."""
    shapes = [parameter.checkpoint_shape(shard)]
    if isinstance(parameter, PerTensorScaleParameter):
        shapes.append((1,))
    return Wanted(tuple(shapes), parameter.accepted_dtypes)
