"""DeepSeek-V3's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from layers.models.config.base import ModelConfig
from layers.models.config.keys import Keys
from layers.models.errors import ModelConfigError
from layers.moe.topk import TopKConfig
from layers.rotary.scaling import YarnScaling


@dataclass(frozen=True)
class DeepseekConfig(ModelConfig):
    """`DeepseekV3ForCausalLM`; attributes are named as config.json's keys.

    Attributes:
        q_lora_rank: None where queries are projected at once.
        topk: how experts are chosen.
    """

    intermediate_size: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    moe_intermediate_size: int
    n_routed_experts: int
    n_shared_experts: int
    first_k_dense_replace: int
    topk: TopKConfig

    @classmethod
    def read(cls, keys: Keys) -> Self:
        """From config.json's keys.

        Raises:
            ModelConfigError: naming a key that is missing or not supported.
        """
        keys.only("attention_bias", False)
        keys.only("moe_layer_freq", 1)
        keys.only("num_nextn_predict_layers", 0, 1, None)
        keys.only("scoring_func", "sigmoid")
        keys.only("topk_method", "noaux_tc")
        keys.only("rope_interleave", True)
        given = keys.values.get("q_lora_rank")
        sizes = (
            *("intermediate_size", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
            *("v_head_dim", "moe_intermediate_size", "n_routed_experts"),
        )
        return cls.from_keys(
            keys,
            **{name: keys.integer(name) for name in sizes},
            q_lora_rank=None if given is None else keys.integer("q_lora_rank"),
            n_shared_experts=keys.integer("n_shared_experts", 0, least=0),
            first_k_dense_replace=keys.integer("first_k_dense_replace", 0, least=0),
            num_draft_layers=keys.integer("num_nextn_predict_layers", 0, least=0),
            topk=_topk(keys),
        )

    @property
    def softmax_scale(self) -> float:
        """Of the logits: YaRN's factor included."""
        plain: float = (self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5
        scaling = self.rope_scaling
        return plain * (scaling.softmax_factor if isinstance(scaling, YarnScaling) else 1.0)


def _topk(keys: Keys) -> TopKConfig:
    groups = keys.integer("n_group", 1)
    try:
        topk = TopKConfig(
            top_k=keys.integer("num_experts_per_tok"),
            scoring_func="sigmoid",
            renormalize=keys.boolean("norm_topk_prob", True),
            num_expert_group=groups,
            topk_group=keys.integer("topk_group", 1),
            routed_scaling_factor=keys.number("routed_scaling_factor", 1.0),
        )
        topk.check_experts(keys.integer("n_routed_experts"))
    except ModelConfigError:
        raise
    except ValueError as error:
        raise ModelConfigError(f"'{keys.path}': {error}") from error
    return topk
