"""What checkpoints call the tensors of experts, within their layer.

- One tensor an expert and matmul: "3.w1.weight" (Mixtral; w1 gate, w3 up, w2 down),
  "3.gate_proj.weight" (DeepSeek, Qwen; gate_proj, up_proj, down_proj).
- Gate and up in one: "3.gate_up_proj.weight".
- All experts in one: "gate_up_proj", "down_proj", "gate_up_proj_bias" (gpt-oss, with packed
  weights "gate_up_proj_blocks" and "gate_up_proj_scales"), or the parameter's own name,
  "w13_weight".
"""

from __future__ import annotations

from typing import NamedTuple

from layers.moe.parameter import FUSED

MIXTRAL = {"w1": "w1", "w3": "w3", "w2": "w2"}
PROJECTIONS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
NAMINGS = (MIXTRAL, PROJECTIONS)

_SHARDS = {**MIXTRAL, **PROJECTIONS, "gate_up_proj": FUSED, "w13": FUSED}
_SUFFIXES = {"": "weight", "blocks": "weight", "scales": "weight_scale"}


class Place(NamedTuple):
    """Where a checkpoint tensor belongs: the parameter's name, the shard, and the expert."""

    parameter: str
    shard_id: str
    expert_id: int | None


def place_of(name: str) -> Place | None:
    """The place of a tensor named within its layer; None for a name of no known form."""
    first, _, rest = name.partition(".")
    # Neither "٣" nor "03", which would be another tensor's expert.
    is_number = first.isdecimal() and str(int(first)) == first
    expert_id = int(first) if is_number else None
    matmul, suffix = _split_matmul(rest if expert_id is not None else name)
    shard_id = _SHARDS.get(matmul)
    if shard_id is None:
        return None
    return Place(
        f"{parameter_prefix(shard_id)}_{_SUFFIXES.get(suffix, suffix)}", shard_id, expert_id
    )


def parameter_prefix(shard_id: str) -> str:
    """The start of the names of the parameters that hold a shard: "w13" or "w2"."""
    return "w2" if shard_id == "w2" else FUSED


def _split_matmul(name: str) -> tuple[str, str]:
    """The matmul, and the kind of tensor, of "gate_proj.weight" or "gate_up_proj_bias"."""
    for matmul in sorted(_SHARDS, key=len, reverse=True):
        if name == matmul:
            return matmul, ""
        if name.startswith((f"{matmul}.", f"{matmul}_")):
            return matmul, name[len(matmul) + 1 :]
    return name, ""
