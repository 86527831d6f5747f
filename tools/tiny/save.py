"""Writes a trained model as a Hugging Face folder, with the record of its training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from tools.tiny.tokenizer import write_tokenizer

RECORD = "training.json"


def rounded_to_bf16(model: torch.nn.Module) -> None:
    """Rounds the weights to what the checkpoint will hold; biases of the routing stay float32."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not _stays_float32(name):
                parameter.copy_(parameter.bfloat16())


def save(
    model: torch.nn.Module,
    config: Mapping[str, Any],
    tokenizer: Tokenizer,
    record: Mapping[str, Any],
    folder: Path,
) -> None:
    """config.json, model.safetensors, tokenizer, generation_config.json and training.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().cpu().to(torch.float32 if _stays_float32(name) else torch.bfloat16)
        for name, tensor in sorted(model.state_dict().items())
    }
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    generation = {name: config[name] for name in ("bos_token_id", "eos_token_id")}
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", generation | {"do_sample": False})
    write_json(folder / RECORD, record)
    write_tokenizer(tokenizer, folder)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Readable, keys in order, one line's end at the last."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def _stays_float32(name: str) -> bool:
    return name.endswith("e_score_correction_bias")
