"""gpt-oss (arXiv 2508.10925): attention with sinks, every other layer in a window, and experts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from layers.models.build import Build
from layers.models.causal_lm import CausalLM
from layers.models.checkpoint.expected import Wanted
from layers.models.checkpoint.fused_experts import as_rows_of_outputs, wanted_of_experts
from layers.models.config.base import ModelConfig
from layers.models.config.gpt_oss import GptOssConfig
from layers.models.decoder import DecoderLayer
from layers.models.parts.biased_experts import BiasedExpertsMLP
from layers.models.parts.grouped_query import GroupedQueryAttention
from layers.moe.layer import FusedMoE
from layers.rotary.embedding import RotaryEmbedding


class GptOss(CausalLM):
    """Its checkpoints hold all experts of a layer in one tensor."""

    def wanted_of_experts(self, path: str, layer: FusedMoE) -> Iterator[tuple[str, Wanted]]:
        """A layer's tensors of experts by name."""
        return wanted_of_experts(path, layer)

    def adapted(
        self, tensors: Iterator[tuple[str, torch.Tensor]]
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Also turns the weights of bfloat16 experts; those of MXFP4 come as they are wanted."""
        is_packed = self.config.quantization is not None
        for name, tensor in super().adapted(tensors):
            yield name, tensor if is_packed else as_rows_of_outputs(name, tensor)


def gpt_oss(build: Build, config: ModelConfig) -> CausalLM:
    """`GptOssForCausalLM`, its weights not loaded.

    Raises:
        ValueError: sizes that do not divide over the ranks or the format.
    """
    assert isinstance(config, GptOssConfig)
    rotary = build.rotary(config, config.head_dim, "neox")
    layers = [_layer(build, config, rotary, index) for index in range(config.num_layers)]
    return GptOss(build, config, layers)


def _layer(build: Build, config: GptOssConfig, rotary: RotaryEmbedding, index: int) -> DecoderLayer:
    prefix = f"model.layers.{index}"
    attention = GroupedQueryAttention(
        *(build, config, config.num_kv_heads, config.head_dim, rotary, f"{prefix}.self_attn"),
        bias=True,
        sliding_window=config.windows[index],
        has_sinks=True,
    )
    mlp = BiasedExpertsMLP(build, config, f"{prefix}.mlp")
    return DecoderLayer(build, config, attention, mlp, prefix)
