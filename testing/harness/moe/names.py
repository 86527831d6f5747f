"""A MoE checkpoint's tensors under the names that model files give them.

deepseek: "…experts.3.gate_proj.weight", gate_proj, up_proj and down_proj.
mixtral: "…experts.3.w1.weight", w1, w3 and w2.
fused: an expert's gate and up in one tensor, "…experts.3.gate_up_proj.weight".
stacked: all experts in one, "…experts.gate_up_proj.weight", gate's rows before up's.
gpt_oss: all experts in one, gate and up rows in turn, and no dot before the kind of tensor:
    "…experts.gate_up_proj_blocks" (E, 2I, H/32, 16), "…experts.gate_up_proj_scales" (E, 2I, H/32),
    "…experts.gate_up_proj_bias" (E, 2I), and the same of "down_proj".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from testing.harness.tensors import floats_to_torch, to_torch
from testing.oracles.moe.checkpoints import DOWN, GATE, UP, MoeCheckpoint

Named = tuple[str, torch.Tensor]
Arrays = dict[str, NDArray[Any]]

NAMES: dict[str, dict[str, str]] = {
    "deepseek": {GATE: "gate_proj", UP: "up_proj", DOWN: "down_proj"},
    "mixtral": {GATE: "w1", UP: "w3", DOWN: "w2"},
}
_GPT_OSS = {"weight": "blocks", "weight_scale": "scales", "bias": "bias"}
_BLOCK_BYTES = 16


def named_tensors(
    prefix: str, naming: str, checkpoint: MoeCheckpoint, dtype: torch.dtype
) -> Iterator[Named]:
    """Every tensor of the checkpoint; biases, which it holds as float64, become `dtype`."""
    experts = [_with_bias(checkpoint, e) for e in range(len(checkpoint.experts))]
    named = _WAYS[naming](experts) if naming in _WAYS else _singly(experts, NAMES[naming])
    for name, array in named:
        tensor = floats_to_torch(array, dtype) if _is_bias(name) else to_torch(array)
        yield f"{prefix}.{name}", tensor


def _is_bias(name: str) -> bool:
    return name.endswith("bias")


def _with_bias(checkpoint: MoeCheckpoint, expert: int) -> dict[str, Arrays]:
    biases = checkpoint.biases[expert]
    return {
        shard: dict(tensors) | ({"bias": biases[shard]} if shard in biases else {})
        for shard, tensors in checkpoint.experts[expert].items()
    }


def _singly(
    experts: list[dict[str, Arrays]], names: Mapping[str, str]
) -> Iterator[tuple[str, NDArray[Any]]]:
    for e, shards in enumerate(experts):
        for shard, tensors in shards.items():
            for suffix, array in tensors.items():
                yield f"{e}.{names[shard]}.{suffix}", array


def _fused(experts: list[dict[str, Arrays]]) -> Iterator[tuple[str, NDArray[Any]]]:
    for e, shards in enumerate(experts):
        for suffix in shards[GATE]:
            yield f"{e}.gate_up_proj.{suffix}", _joined(shards, suffix, in_turn=False)
        for suffix, array in shards[DOWN].items():
            yield f"{e}.down_proj.{suffix}", array


def _stacked(experts: list[dict[str, Arrays]]) -> Iterator[tuple[str, NDArray[Any]]]:
    for suffix in experts[0][GATE]:
        both = [_joined(shards, suffix, in_turn=False) for shards in experts]
        yield f"gate_up_proj.{suffix}", np.stack(both)
    for suffix in experts[0][DOWN]:
        yield f"down_proj.{suffix}", np.stack([shards[DOWN][suffix] for shards in experts])


def _gpt_oss(experts: list[dict[str, Arrays]]) -> Iterator[tuple[str, NDArray[Any]]]:
    for suffix, leaf in _GPT_OSS.items():
        if suffix not in experts[0][GATE]:
            continue
        both = np.stack([_joined(shards, suffix, in_turn=True) for shards in experts])
        down = np.stack([shards[DOWN][suffix] for shards in experts])
        for name, array in (("gate_up_proj", both), ("down_proj", down)):
            if leaf == "blocks":
                array = array.reshape(*array.shape[:2], -1, _BLOCK_BYTES)
            yield f"{name}_{leaf}", array


def _joined(shards: dict[str, Arrays], suffix: str, in_turn: bool) -> NDArray[Any]:
    gate, up = shards[GATE][suffix], shards[UP][suffix]
    if not gate.ndim:
        return np.stack([gate, up])
    if not in_turn:
        return np.concatenate([gate, up])
    return np.stack([gate, up], axis=1).reshape(2 * len(gate), *gate.shape[1:])


_WAYS = {"fused": _fused, "stacked": _stacked, "gpt_oss": _gpt_oss}
