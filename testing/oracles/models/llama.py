"""Llama: grouped-query attention and a SwiGLU feed-forward part (arXiv 2302.13971, 2407.21783)."""

import torch

from testing.oracles.models.decoder import ReferenceModel
from testing.oracles.models.parts import MLP, Cached, Config, Linear, Rotary, Stored, attend


class LlamaAttention(torch.nn.Module):  # type: ignore[misc]
    """softmax(q kᵀ / sqrt(head_dim)) v with num_key_value_heads keys and values."""

    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        kv_heads = config.get("num_key_value_heads") or heads
        self.head_dim: int = config.get("head_dim") or hidden // heads
        self.q_proj = Linear(hidden, heads * self.head_dim)
        self.k_proj = Linear(hidden, kv_heads * self.head_dim)
        self.v_proj = Linear(hidden, kv_heads * self.head_dim)
        self.o_proj = Linear(heads * self.head_dim, hidden, is_sum=True)
        self.rotary = Rotary(self.head_dim, config, "neox")
        self.keys = Cached()
        self.values = Cached()
        self.weights = Stored(in_kernels=True)
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, hidden) -> the same shape."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_dim))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        turned = self.rotary(q), self.keys(self.rotary(k))
        out = attend(*turned, self.values(v), self.head_dim**-0.5, store=self.weights)
        return self.o_proj(self.out(out.flatten(2)))


def _mlp(config: Config, index: int) -> MLP:
    return MLP(config["hidden_size"], config["intermediate_size"])


class Llama(ReferenceModel):
    """`LlamaForCausalLM`."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, LlamaAttention, _mlp)
