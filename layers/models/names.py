"""Where checkpoints and models call a module by different names."""

from __future__ import annotations

# The checkpoint modules of each fused layer, in the order of its shards.
PACKED_MODULES = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
# Parts of names: in the checkpoint, and in the model.
RENAMED = {
    ".self_attn.kv_b_proj.": ".self_attn.attn.kv_b_proj.",
    ".self_attn.sinks": ".self_attn.attn.sinks",
}


def to_model(name: str) -> str:
    """A checkpoint tensor's name -> the same as the model's modules have it."""
    for theirs, ours in RENAMED.items():
        name = name.replace(theirs, ours)
    return name


def to_checkpoint(name: str) -> str:
    """The other way round."""
    for theirs, ours in RENAMED.items():
        name = name.replace(ours, theirs)
    return name
