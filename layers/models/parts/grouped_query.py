"""Self-attention with keys and values shared by groups of query heads."""

from __future__ import annotations

import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.layer import Attention
from layers.attention.metadata import AttentionMetadata
from layers.linear.qkv import QKVParallelLinear
from layers.linear.row import RowParallelLinear
from layers.models.build import Build
from layers.models.config.base import ModelConfig
from layers.models.decoder import CACHE_SCALES, Cache, SelfAttention
from layers.rotary.embedding import RotaryEmbedding


class GroupedQueryAttention(SelfAttention):
    """o_proj(attention(rotated q, rotated k, v)); the heads divide over the ranks.

    Args:
        build: what all layers are built with.
        config: of the model.
        num_kv_heads, head_dim: of the layer, over all ranks.
        rotary: the model's table.
        prefix: the name in the model, such as "model.layers.0.self_attn".
        bias: of all projections.
        sliding_window: keys that a query sees, its own included; None is all before it.
        has_sinks: a learnt logit a head, checkpoint tensor "sinks".
    """

    def __init__(
        self,
        build: Build,
        config: ModelConfig,
        num_kv_heads: int,
        head_dim: int,
        rotary: RotaryEmbedding,
        prefix: str,
        *,
        bias: bool = False,
        sliding_window: int | None = None,
        has_sinks: bool = False,
    ) -> None:
        super().__init__(CACHE_SCALES)
        heads, hidden = config.num_heads, config.hidden_size
        self.qkv_proj = QKVParallelLinear(
            *(hidden, head_dim, heads, num_kv_heads),
            bias=bias,
            prefix=f"{prefix}.qkv_proj",
            **build.options,
        )
        self.o_proj = RowParallelLinear(
            heads * head_dim, hidden, bias=bias, prefix=f"{prefix}.o_proj", **build.options
        )
        self.attn = Attention(
            *(heads, num_kv_heads, head_dim),
            sliding_window=sliding_window,
            has_sinks=has_sinks,
            params_dtype=build.params_dtype,
            prefix=prefix,
            backend=build.backends.attention,
            device=build.device,
        )
        self.rotary = rotary
        self.head_dim = head_dim

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """x (T, hidden), positions (T,) int64 -> (T, hidden), summed over the ranks."""
        heads, kv_heads = self.attn.num_heads, self.attn.num_kv_heads
        qkv = self.qkv_proj(x).view(len(x), -1, self.head_dim)
        q, k, v = qkv.split((heads, kv_heads, kv_heads), dim=1)
        q, k = self.rotary(positions, q, k)
        out: torch.Tensor = self.o_proj(self.attn(q, k, v, cache, metadata))
        return out

    def make_cache(self, num_pages: int, page_size: int, dtype: torch.dtype) -> PagedKVCache:
        """Of this rank's heads."""
        is_fp8 = dtype is torch.float8_e4m3fn
        return PagedKVCache(
            *(num_pages, page_size, self.attn.num_kv_heads, self.head_dim),
            dtype=dtype,
            device=self.attn.device,
            k_scale=self.cache_scales["k_scale"] if is_fp8 else 1.0,
            v_scale=self.cache_scales["v_scale"] if is_fp8 else 1.0,
        )

    def plan(self, cache: Cache, metadata: AttentionMetadata) -> None:
        """Lets the attention's backend plan for a batch."""
        assert isinstance(cache, PagedKVCache)
        self.attn.plan(cache, metadata)

    @property
    def values_per_token(self) -> int:
        """A key and a value a head of this rank."""
        return 2 * self.attn.num_kv_heads * self.head_dim
