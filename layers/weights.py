"""From a checkpoint's named tensors to a model that is ready for forward.

First `load_weights`, as often as there are checkpoint files; then `process_weights_after_loading`,
once, which also reports what was never loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from layers.checkpoint_tensor import check_dense
from layers.errors import WeightLoadError
from layers.listing import compress
from layers.loadable import LoadableLayer, Located
from layers.sharding import ShardId

__all__ = [
    "WeightLoadError",
    "begin_weight_reload",
    "load_weights",
    "process_weights_after_loading",
]

PackedModules = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _Target:
    module: torch.nn.Module
    parameter: torch.nn.Parameter
    shard_id: ShardId


def load_weights(
    module: torch.nn.Module,
    tensors: Iterable[tuple[str, torch.Tensor]] | Mapping[str, torch.Tensor],
    packed_modules_mapping: PackedModules | None = None,
) -> None:
    """Loads checkpoint tensors into a model; may be called once a checkpoint file.

    Args:
        module: the model; or a single layer, whose tensors are then named "weight", …, and which
            takes fused tensors only, since its shards have names only within a model.
        tensors: names as the checkpoint has them, and full tensors; pairs or a dict.
        packed_modules_mapping: for each layer that fuses checkpoint modules, its name and theirs
            in the order of its shards, such as {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}.
            A layer of experts needs no entry: it knows the names of its experts' tensors.

    Raises:
        WeightLoadError: a tensor with no parameter, of a wrong shape or dtype, or a shard loaded
            twice. What was never loaded is reported by `process_weights_after_loading`.
        ValueError: an argument of another kind.
    """
    _check_module(module)
    packed = _checked(packed_modules_mapping)
    for name, tensor in _pairs(tensors):
        load = _find_in_layer(module, name) or partial(_load, _find(module, name, packed))
        try:
            load(tensor)
        except WeightLoadError as error:
            raise WeightLoadError(f"checkpoint tensor '{name}': {error}") from error


def process_weights_after_loading(module: torch.nn.Module) -> None:
    """Checks that every parameter was loaded, then makes each layer ready for forward.

    Layers that are ready already are left alone.

    Raises:
        WeightLoadError: listing every parameter and shard that was never loaded.
        BackendUnavailable: a kernel backend was asked for that the device or shape rules out.
    """
    _check_module(module)
    layers = [m for m in module.modules() if isinstance(m, LoadableLayer) and not m.is_ready]
    missing = [name for layer in layers for name in layer.missing_weights()]
    missing += _missing_plain_parameters(module)
    if missing:
        raise WeightLoadError(
            f"{len(missing)} tensors were never loaded: {compress(missing)}. Check that the "
            f"checkpoint is whole and that packed_modules_mapping names every fused layer."
        )
    for layer in layers:
        layer.process_weights_after_loading()


def begin_weight_reload(module: torch.nn.Module) -> None:
    """Returns a ready model to the loading state; load and process it as a fresh one.

    The parameters get new memory. A CUDA graph captured before reads and writes memory that is
    free by then: capture it again after `process_weights_after_loading`.
    """
    _check_module(module)
    for child in module.modules():
        if isinstance(child, LoadableLayer):
            child.begin_weight_reload()
        else:
            for parameter in child.parameters(recurse=False):
                parameter.loaded = False


def _check_module(module: Any) -> None:
    if not isinstance(module, torch.nn.Module):
        raise ValueError(
            f"module is a {type(module).__name__}, wanted a torch.nn.Module: the model or a layer."
        )


def _checked(packed: Any) -> PackedModules:
    if not isinstance(packed, Mapping | None):
        raise ValueError(
            f"packed_modules_mapping is {packed!r}, wanted a dict of lists, such as "
            f"{{'qkv_proj': ['q_proj', 'k_proj', 'v_proj']}}."
        )
    for fused, parts in (packed or {}).items():
        is_list = isinstance(parts, Sequence) and not isinstance(parts, str)
        if not isinstance(fused, str) or not is_list or not all(isinstance(p, str) for p in parts):
            raise ValueError(
                f"packed_modules_mapping has {parts!r} for {fused!r}, wanted a list of module "
                f"names in the order of the layer's shards, such as ['q_proj', 'k_proj', 'v_proj']."
            )
    return packed or {}


def _pairs(tensors: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if not isinstance(tensors, Iterable):
        raise ValueError(f"tensors is {tensors!r}, wanted pairs of name and tensor, or a dict.")
    for pair in tensors.items() if isinstance(tensors, Mapping) else tensors:
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], str):
            kinds = ", ".join(type(p).__name__ for p in pair) if is_pair else type(pair).__name__
            raise ValueError(
                f"tensors holds ({kinds}), wanted pairs of name and tensor, such as those of a "
                f"checkpoint's items()."
            )
        yield pair[0], pair[1]


def _find(module: torch.nn.Module, name: str, packed: PackedModules) -> _Target:
    path, _, leaf = name.rpartition(".")
    owner = _submodule(module, path)
    if owner is not None:
        return _Target(owner, _parameter(owner, name, leaf), None)
    parent, _, last = path.rpartition(".")
    for fused, parts in packed.items():
        if last not in parts:
            continue
        owner = _submodule(module, f"{parent}.{fused}" if parent else fused)
        if owner is not None:
            shard_id = _shard_id(owner, fused, parts, last)
            return _Target(owner, _parameter(owner, name, leaf), shard_id)
    raise WeightLoadError(
        f"checkpoint tensor '{name}' belongs to no layer: the model has no module '{path}', and "
        f"packed_modules_mapping ({', '.join(packed) or 'empty'}) fuses no '{last}' there. Remove "
        f"the tensor from the checkpoint, or add the layer to the model or the mapping."
    )


def _find_in_layer(module: torch.nn.Module, name: str) -> Located | None:
    """For a layer that gives its tensors names of their own, such as those of single experts."""
    parts = name.split(".")
    for depth in range(len(parts)):
        if isinstance(module, LoadableLayer):
            return module.locate(".".join(parts[depth:]))
        child = module._modules.get(parts[depth])
        if child is None:
            break
        module = child
    return None


def _submodule(module: torch.nn.Module, path: str) -> torch.nn.Module | None:
    for part in path.split(".") if path else []:
        child = module._modules.get(part)
        if child is None:
            return None
        module = child
    return module


def _parameter(owner: torch.nn.Module, name: str, leaf: str) -> torch.nn.Parameter:
    parameter = owner._parameters.get(leaf)
    if parameter is not None:
        return parameter
    known = ", ".join(n for n, p in owner._parameters.items() if p is not None) or "none"
    raise WeightLoadError(
        f"checkpoint tensor '{name}' has no parameter: {type(owner).__name__} has no '{leaf}', its "
        f"parameters are {known}. Check the quantisation config, and bias= of the layer."
    )


def _shard_id(owner: torch.nn.Module, fused: str, parts: Sequence[str], last: str) -> ShardId:
    ids = owner.shard_ids if isinstance(owner, LoadableLayer) else ()
    if len(ids) != len(parts):
        raise WeightLoadError(
            f"packed_modules_mapping fuses {list(parts)} into '{fused}', but that layer has "
            f"{len(ids)} shards. Name as many modules as the layer has shards."
        )
    return ids[list(parts).index(last)]


def _load(target: _Target, tensor: torch.Tensor) -> None:
    if isinstance(target.module, LoadableLayer):
        target.module.weight_loader_v2(target.parameter, tensor, target.shard_id)
        return
    parameter = target.parameter
    check_dense("a plain parameter", tensor)
    if getattr(parameter, "loaded", False):
        raise WeightLoadError("it was loaded twice. Remove the second tensor of that name.")
    if tensor.shape != parameter.shape or tensor.dtype != parameter.dtype:
        raise WeightLoadError(
            f"it is {tuple(tensor.shape)} {tensor.dtype}, wanted {tuple(parameter.shape)} "
            f"{parameter.dtype}. Check the model's configuration."
        )
    parameter.data.copy_(tensor.detach())
    parameter.loaded = True


def _missing_plain_parameters(module: torch.nn.Module) -> list[str]:
    return [
        f"'{path}.{name}'" if path else f"'{name}'"
        for path, child in module.named_modules()
        if not isinstance(child, LoadableLayer)
        for name, parameter in child.named_parameters(recurse=False)
        if not getattr(parameter, "loaded", False)
    ]
