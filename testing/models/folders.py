"""Hugging Face folders of random checkpoints, written by the tests that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from testing.oracles.models.build import build
from testing.oracles.models.decoder import ReferenceModel

INDEX = "model.safetensors.index.json"


def random_tensors(config: Mapping[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, bfloat16; norms, biases and sinks random too.

    A correction bias is float32, as published, and wide enough to change what is chosen. Gates of
    fused experts are large enough to be clamped.
    """
    model = build(config, torch.float64)
    model.initialise(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    made = {}
    for name, tensor in model.state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if name.endswith("e_score_correction_bias"):
            made[name] = (0.1 * drawn).float()
            continue
        if tensor.dim() == 1 or name.endswith("_bias"):
            tensor = tensor + 0.3 * drawn
        if name.endswith("gate_up_proj"):
            tensor = 4 * tensor
        made[name] = tensor.bfloat16()
    return made


def reference_of(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> ReferenceModel:
    """The reference model in float64 with a checkpoint's weights."""
    model = build(config, torch.float64)
    model.load_state_dict({name: tensor.double() for name, tensor in tensors.items()})
    model.requires_grad_(False)
    return model


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    shards: int = 1,
) -> Path:
    """config.json and model.safetensors, or so many shards with their index; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    if shards == 1:
        _save({name: tensors[name] for name in names}, folder / "model.safetensors")
        return folder
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        inside = names[shard::shards]
        _save({name: tensors[name] for name in inside}, folder / file)
        weight_map |= dict.fromkeys(inside, file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def _save(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    # A copy, as the library refuses tensors that share memory.
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, path)
