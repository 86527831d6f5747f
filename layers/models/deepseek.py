"""DeepSeek-V3 (arXiv 2412.19437): latent attention, experts, and a layer that drafts tokens."""

from __future__ import annotations

import torch

from layers.mlp.gated import GatedMLP
from layers.models.build import Build
from layers.models.causal_lm import CausalLM
from layers.models.config.base import ModelConfig
from layers.models.config.deepseek import DeepseekConfig
from layers.models.decoder import DecoderLayer
from layers.models.draft import DraftLayer
from layers.models.parts.latent import LatentAttention
from layers.models.parts.sparse import SharedExpertsMLP
from layers.rotary.embedding import RotaryEmbedding


def deepseek(build: Build, config: ModelConfig) -> CausalLM:
    """`DeepseekV3ForCausalLM`, its weights not loaded.

    Raises:
        ValueError: sizes that do not divide over the ranks or the format.
    """
    assert isinstance(config, DeepseekConfig)
    rotary = build.rotary(config, config.qk_rope_head_dim, "gptj")
    depth = config.num_layers
    layers = [
        _layer(build, config, rotary, index, DraftLayer if index == depth else DecoderLayer)
        for index in range(depth + config.num_draft_layers)
    ]
    return CausalLM(build, config, layers)


def _layer(
    build: Build,
    config: DeepseekConfig,
    rotary: RotaryEmbedding,
    index: int,
    kind: type[DecoderLayer],
) -> DecoderLayer:
    prefix = f"model.layers.{index}"
    attention = LatentAttention(build, config, rotary, f"{prefix}.self_attn")
    mlp: torch.nn.Module
    if index < config.first_k_dense_replace:
        sizes = (config.hidden_size, config.intermediate_size)
        mlp = GatedMLP(*sizes, prefix=f"{prefix}.mlp", **build.options)
    else:
        mlp = SharedExpertsMLP(build, config, f"{prefix}.mlp")
    return kind(build, config, attention, mlp, prefix)
