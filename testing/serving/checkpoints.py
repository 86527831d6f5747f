"""Folders of small random models, as the server reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from testing.oracles.models.build import build
from testing.serving.model_folder import EOS, byte_tokenizer, write_folder


def write_checkpoint(folder: Path, config: Mapping[str, Any], seed: int = 0) -> Path:
    """Random weights of an architecture, with the byte tokenizer beside them.

    Args:
        folder: to be made.
        config: of `testing.oracles.models.configs`; the vocabulary becomes the tokenizer's, made
            even for two ranks.
        seed: of the weights.
    """
    write_folder(folder)
    size = byte_tokenizer().get_vocab_size()
    whole = {**config, "vocab_size": size + size % 2, "eos_token_id": EOS}
    (folder / "config.json").write_text(json.dumps(whole))
    model = build(whole, torch.float32)
    model.initialise(seed)
    tensors = {
        name: tensor if name.endswith("e_score_correction_bias") else tensor.bfloat16()
        for name, tensor in model.state_dict().items()
    }
    save_file(
        {name: t.clone().contiguous() for name, t in tensors.items()}, folder / "model.safetensors"
    )
    return folder
