"""gpt-oss with experts in MXFP4, stored as it is published."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from testing.models.examine import Examination
from testing.models.folders import random_tensors, write_folder
from testing.oracles.codecs import e2m1, mx

# As gpt-oss's own config.json has it.
CONFIG = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
}
MATMULS = ("gate_up_proj", "down_proj")


class Mxfp4Examination(Examination):
    """A checkpoint whose weights of experts are blocks and scales; `tensors` has their values."""

    @cached_property
    def stored(self) -> dict[str, torch.Tensor]:
        """By name, as the folder holds them."""
        made: dict[str, torch.Tensor] = {}
        for name, tensor in random_tensors(self.config, self.seed).items():
            if name.rpartition(".")[2] in MATMULS:
                blocks, scales = encoded(tensor)
                made[f"{name}_blocks"], made[f"{name}_scales"] = blocks, scales
            else:
                made[name] = tensor
        return made

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Those of a bfloat16 checkpoint with the same values."""
        return values_of(self.stored)

    def write(self, folder: Path) -> Path:
        """The checkpoint as a folder, which it returns."""
        config = {**self.config, "quantization_config": CONFIG}
        return write_folder(folder, config, self.stored, shards=2)


def encoded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """weight (E, K, N) -> blocks (E, N, K / 32, 16), two codes a byte; scales (E, N, K / 32)."""
    rows = weight.transpose(1, 2)
    made = [mx.quantise(expert.double().numpy(), "e2m1") for expert in rows]
    packed = np.stack([e2m1.pack(codes) for codes, _ in made])
    shape = (*packed.shape[:2], packed.shape[2] // 16, 16)
    scales = np.stack([scales for _, scales in made])
    return torch.from_numpy(packed.reshape(shape)), torch.from_numpy(scales)


def values_of(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of a folder, with the values of blocks and scales, (E, K, N), in their place."""
    made: dict[str, torch.Tensor] = {}
    for name, tensor in stored.items():
        base = name.removesuffix("_blocks")
        if base != name:
            experts = zip(tensor.flatten(2).numpy(), stored[f"{base}_scales"].numpy(), strict=True)
            rows = [
                mx.dequantise(e2m1.unpack(packed), scales, "e2m1") for packed, scales in experts
            ]
            made[base] = torch.from_numpy(np.stack(rows)).transpose(1, 2)
        elif not name.endswith("_scales"):
            made[name] = tensor
    return made
