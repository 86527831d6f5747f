"""Faults of kernels and of the loader, planted where a rank loads its model."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import torch

from layers.attention.layer import Attention
from layers.attention.mla.layer import MLAAttention
from layers.models.checkpoint.files import CheckpointFiles
from layers.moe.layer import FusedMoE
from testing.e2e.faults.fault import fault

_DENSE, _MLA, _GPT = "tokenizer_workers_smoke", "mla_int8_mtp_smoke", "gpt_oss_mxfp4_smoke"

_SCALES = tuple(f"layers.0.self_attn.o_proj.weight_scale{end}" for end in ("", "_inv"))

Planting = Generator[None, Any, None]


@fault("kernel", _DENSE, _MLA, _GPT)
def softmax_scale() -> Planting:
    """Logits of attention are half of what they should be."""
    model = yield
    for module in model.modules():
        if isinstance(module, Attention | MLAAttention):
            module.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 0.5, *inputs[1:]))
    yield


@fault("kernel", _DENSE, _MLA, _GPT)
def decode_position() -> Planting:
    """Rotary embedding turns decoded tokens as if they stood two places further on."""
    model = yield
    forward = model.forward

    def shifted(ids: Any, positions: Any, caches: Any, metadata: Any) -> Any:
        away = 0 if metadata.mode == "extend" else 2
        return forward(ids, positions + away, caches, metadata)

    model.forward = shifted
    yield


@fault("kernel", _DENSE, _MLA, _GPT)
def last_tile_lost() -> Planting:
    """Products of attention's output leave out the last quarter of K."""
    model = yield
    for name, module in model.named_modules():
        if name.endswith("o_proj"):
            module.register_forward_pre_hook(_without_last_quarter)
    yield


def _without_last_quarter(module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    x = inputs[0].clone()
    x[..., x.shape[-1] * 3 // 4 :] = 0
    return (x, *inputs[1:])


@fault("kernel", _GPT)
def combine_weights() -> Planting:
    """Every chosen expert counts alike."""
    model = yield
    for module in model.modules():
        if isinstance(module, FusedMoE):
            _count_alike(module)
    yield


def _count_alike(layer: FusedMoE) -> None:
    select = layer.select_experts

    def alike(*arguments: Any, **options: Any) -> Any:
        chosen = select(*arguments, **options)
        mean = chosen.weights.mean(dim=1, keepdim=True)
        return chosen._replace(weights=mean.expand_as(chosen.weights).contiguous())

    layer.select_experts = alike


@fault("loader", _DENSE, _MLA)
def gate_and_up_swapped() -> Planting:
    """up_proj is loaded as gate_proj and the other way round, scales and all."""
    others = {"gate_proj": "up_proj", "up_proj": "gate_proj"}

    def renamed(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        return ".".join(others.get(part, part) for part in name.split(".")), tensor

    _patch_load(renamed)
    yield
    yield


@fault("loader", _GPT)
def gate_and_up_not_in_turn() -> Planting:
    """Rows of gate and up, stored in turn, are taken for one after the other."""

    def unturned(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        if "gate_up_proj" in name:
            tensor = torch.stack(tensor.chunk(2, dim=1), dim=2).flatten(1, 2)
        return name, tensor

    _patch_load(unturned)
    yield
    yield


@fault("loader", _MLA)
def experts_one_off() -> Planting:
    """Each expert's tensors are loaded as the next one's."""

    def renamed(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        parts = name.split(".")
        if "experts" in parts:
            place = parts.index("experts") + 1
            parts[place] = str((int(parts[place]) + 1) % 8)
        return ".".join(parts), tensor

    _patch_load(renamed)
    yield
    yield


@fault("loader", _GPT)
def experts_of_the_other_rank() -> Planting:
    """A rank loads the experts that the other one should have."""

    def rolled(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        if ".experts." in name:
            tensor = tensor.roll(tensor.shape[0] // 2, 0)
        return name, tensor

    _patch_load(rolled)
    yield
    yield


@fault("loader", _MLA)
def scales_of_one_layer_missed() -> Planting:
    """A layer's scales keep the value that they were made with, 1, whatever the files hold."""

    def flattened(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        # Of int8 and fp8 blocks: weight_scale_inv; of NVFP4 those of its blocks.
        if name.endswith(_SCALES):
            tensor = torch.ones_like(tensor)
        return name, tensor

    _patch_load(flattened)
    yield
    yield


@fault("loader", _DENSE)
def keys_and_values_swapped() -> Planting:
    """The shards k and v of a fused layer change places."""
    others = {"k_proj": "v_proj", "v_proj": "k_proj"}

    def renamed(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        return ".".join(others.get(part, part) for part in name.split(".")), tensor

    _patch_load(renamed)
    yield
    yield


def _patch_load(change: Any) -> None:
    load = CheckpointFiles.load

    def changed(self: CheckpointFiles, names: Any) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in load(self, names):
            yield change(name, tensor)

    CheckpointFiles.load = changed  # type: ignore[method-assign]
