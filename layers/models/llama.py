"""Llama: a dense decoder with grouped-query attention (arXiv 2302.13971, 2407.21783)."""

from __future__ import annotations

from layers.mlp.gated import GatedMLP
from layers.models.build import Build
from layers.models.causal_lm import CausalLM
from layers.models.config.base import ModelConfig
from layers.models.config.llama import LlamaConfig
from layers.models.decoder import DecoderLayer
from layers.models.parts.grouped_query import GroupedQueryAttention


def llama(build: Build, config: ModelConfig) -> CausalLM:
    """`LlamaForCausalLM`, its weights not loaded.

    Raises:
        ValueError: sizes that do not divide over the ranks or the format.
    """
    assert isinstance(config, LlamaConfig)
    rotary = build.rotary(config, config.head_dim, "neox")
    layers = []
    for index in range(config.num_layers):
        prefix = f"model.layers.{index}"
        attention = GroupedQueryAttention(
            *(build, config, config.num_kv_heads, config.head_dim, rotary, f"{prefix}.self_attn")
        )
        mlp = GatedMLP(
            *(config.hidden_size, config.intermediate_size), prefix=f"{prefix}.mlp", **build.options
        )
        layers.append(DecoderLayer(build, config, attention, mlp, prefix))
    return CausalLM(build, config, layers)
