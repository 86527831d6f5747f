"""Llama's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from layers.models.config.base import ModelConfig
from layers.models.config.keys import Keys


@dataclass(frozen=True)
class LlamaConfig(ModelConfig):
    """`LlamaForCausalLM`.

    Attributes:
        num_kv_heads: key-value heads of a layer.
        head_dim: of all heads.
        intermediate_size: of the feed-forward part.
    """

    num_kv_heads: int
    head_dim: int
    intermediate_size: int

    @classmethod
    def read(cls, keys: Keys) -> Self:
        """From config.json's keys.

        Raises:
            ModelConfigError: naming a key that is missing or not supported.
        """
        keys.only("attention_bias", False)
        keys.only("mlp_bias", False)
        heads, hidden = keys.integer("num_attention_heads"), keys.integer("hidden_size")
        return cls.from_keys(
            keys,
            num_kv_heads=keys.integer("num_key_value_heads", heads),
            head_dim=keys.integer("head_dim", hidden // heads),
            intermediate_size=keys.integer("intermediate_size"),
        )
