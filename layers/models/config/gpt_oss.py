"""gpt-oss's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from layers.kernels.moe.activation import SWIGLU_OAI_LIMIT
from layers.models.config.base import ModelConfig
from layers.models.config.keys import Keys
from layers.models.errors import ModelConfigError
from layers.moe.topk import TopKConfig

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class GptOssConfig(ModelConfig):
    """`GptOssForCausalLM`.

    Attributes:
        num_kv_heads, head_dim: of a layer.
        windows: of each layer, the keys that a query sees, its own included; None is all.
        num_experts: of a layer.
        intermediate_size: of an expert.
        topk: how experts are chosen.
    """

    num_kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    num_experts: int
    intermediate_size: int
    topk: TopKConfig

    @classmethod
    def read(cls, keys: Keys) -> Self:
        """From config.json's keys.

        Raises:
            ModelConfigError: naming a key that is missing or not supported.
        """
        keys.only("attention_bias", True)
        keys.only("swiglu_limit", SWIGLU_OAI_LIMIT, int(SWIGLU_OAI_LIMIT))
        quantised = (keys.inner("quantization_config") or {}).get("quant_method", "mxfp4")
        if quantised != "mxfp4":
            raise keys.wrong("quantization_config", "one of quant_method 'mxfp4', or none")
        experts, chosen = keys.integer("num_local_experts"), keys.integer("num_experts_per_tok")
        topk = TopKConfig(top_k=chosen, scoring_func="softmax", renormalize=True)
        try:
            topk.check_experts(experts)
        except ValueError as error:
            raise ModelConfigError(f"'{keys.path}': {error}") from error
        return cls.from_keys(
            keys,
            num_kv_heads=keys.integer("num_key_value_heads"),
            head_dim=keys.integer("head_dim"),
            windows=_windows(keys),
            num_experts=experts,
            intermediate_size=keys.integer("intermediate_size"),
            topk=topk,
        )


def _windows(keys: Keys) -> tuple[int | None, ...]:
    """Every other layer's from the first on, where config.json does not say which."""
    count, window = keys.integer("num_hidden_layers"), keys.integer("sliding_window")
    kinds: tuple[str, ...] = tuple((SLIDING, FULL)[i % 2] for i in range(count))
    if keys.values.get("layer_types") is not None:
        kinds = keys.strings("layer_types", (SLIDING, FULL), count)
    return tuple(window if kind == SLIDING else None for kind in kinds)
