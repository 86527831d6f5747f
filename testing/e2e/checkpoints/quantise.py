"""Writes a quantised variant of a tiny checkpoint, as published checkpoints are laid out.

    python -m testing.e2e.checkpoints.quantise DENSE int8_channel OUTPUT

Only tensors of the oracles' encoders are written: what a layer reads was made by code that it
shares nothing with. Two shards with an index, so that loaders meet both.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import load_file, save_file

from testing.e2e.checkpoints.encode import METHODS, encode_experts
from testing.oracles.arrays import Tensors

UNCHANGED = ("generation_config.json", "tokenizer.json", "tokenizer_config.json")
FILES = (
    *UNCHANGED,
    "config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
)
"""What a variant's folder holds."""

_QUANTISED = ("_proj", "_proj_with_mqa")
_KEPT = ("eh_proj",)
_EXPERTS = ("gate_up_proj", "down_proj")
_KEPT_OF_GPT_OSS = ["self_attn", "mlp.router", "embed_tokens", "lm_head"]


def quantise(source: Path, method: str, target: Path) -> None:
    """Reads the folder `source`, writes the folder `target`.

    method: a key of `METHODS`; a gpt-oss-like checkpoint has "mxfp4" alone.

    Raises:
        ValueError: an unknown method, or one that the architecture's checkpoints never have.
    """
    if method not in METHODS:
        raise ValueError(f"method '{method}' is unknown; wanted one of {', '.join(METHODS)}")
    config = json.loads((source / "config.json").read_text())
    amax = json.loads((source / "calibration.json").read_text())
    stored = dict(METHODS[method].config)
    tensors = load_file(source / "model.safetensors")
    if config["architectures"] == ["GptOssForCausalLM"]:
        if method != "mxfp4":
            raise ValueError(f"{source} is like gpt-oss, which is published in mxfp4, not {method}")
        stored["modules_to_not_convert"] = _KEPT_OF_GPT_OSS
        made = _quantised_experts(tensors)
    else:
        made = _quantised_linears(tensors, method, amax)
    target.mkdir(parents=True, exist_ok=True)
    for name in UNCHANGED:
        shutil.copyfile(source / name, target / name)
    _write_json(target / "config.json", config | {"quantization_config": stored})
    _write_shards(made, target)


def _quantised_linears(
    tensors: Mapping[str, torch.Tensor], method: str, amax: Mapping[str, float]
) -> dict[str, torch.Tensor]:
    made: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        layer = name.removesuffix(".weight")
        if layer.endswith(_QUANTISED) and layer.rpartition(".")[2] not in _KEPT:
            weight = tensor.double().numpy()
            made |= _as_torch(layer, ".", METHODS[method].encode(weight, amax[layer]))
        else:
            made[name] = tensor
    return made


def _quantised_experts(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    made: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if name.rpartition(".")[2] in _EXPERTS:
            made |= _as_torch(name, "_", encode_experts(tensor.double().numpy()))
        else:
            made[name] = tensor
    return made


def _as_torch(layer: str, joint: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    made = {}
    for suffix, array in tensors.items():
        array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype == ml_dtypes.float8_e4m3fn:
            tensor = torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
        else:
            tensor = torch.from_numpy(array)
        made[f"{layer}{joint}{suffix}"] = tensor
    return made


def _write_shards(tensors: Mapping[str, torch.Tensor], target: Path) -> None:
    names = sorted(tensors)
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    placed: dict[str, str] = {}
    for number, half in enumerate(halves, start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        placed |= dict.fromkeys(half, file)
        save_file({name: tensors[name] for name in half}, target / file, {"format": "pt"})
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": placed}
    _write_json(target / "model.safetensors.index.json", index)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def main(arguments: Sequence[str]) -> None:
    """SOURCE METHOD TARGET."""
    if len(arguments) != 3:
        sys.exit("quantise: wanted three arguments, SOURCE METHOD TARGET")
    quantise(Path(arguments[0]), arguments[1], Path(arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
