"""Multi-head latent attention with its projections (DeepSeek-V2 and V3)."""

from __future__ import annotations

import torch

from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.attention.mla.layer import MLAAttention
from layers.linear.column import ColumnParallelLinear
from layers.linear.replicated import ReplicatedLinear
from layers.linear.row import RowParallelLinear
from layers.models.build import Build
from layers.models.config.deepseek import DeepseekConfig
from layers.models.decoder import Cache, SelfAttention
from layers.rotary.embedding import RotaryEmbedding


class LatentAttention(SelfAttention):
    """o_proj of `MLAAttention`; the heads divide over the ranks, latents are on all of them.

    Args:
        build: what all layers are built with.
        config: of the model.
        rotary: the model's table.
        prefix: the name in the model, such as "model.layers.0.self_attn".
    """

    def __init__(
        self, build: Build, config: DeepseekConfig, rotary: RotaryEmbedding, prefix: str
    ) -> None:
        # Values are the latents that keys are.
        super().__init__(("k_scale",))
        hidden, rank, rope = config.hidden_size, config.kv_lora_rank, config.qk_rope_head_dim
        self.config = config
        q_size = config.num_heads * (config.qk_nope_head_dim + rope)
        if config.q_lora_rank is None:
            self.q_proj = ColumnParallelLinear(
                hidden, q_size, prefix=f"{prefix}.q_proj", **build.options
            )
        else:
            low = config.q_lora_rank
            self.q_a_proj = ReplicatedLinear(
                hidden, low, prefix=f"{prefix}.q_a_proj", **build.options
            )
            self.q_a_layernorm = build.norm(config, f"{prefix}.q_a_layernorm", low)
            self.q_b_proj = ColumnParallelLinear(
                low, q_size, prefix=f"{prefix}.q_b_proj", **build.options
            )
        self.kv_a_proj_with_mqa = ReplicatedLinear(
            hidden, rank + rope, prefix=f"{prefix}.kv_a_proj_with_mqa", **build.options
        )
        self.kv_a_layernorm = build.norm(config, f"{prefix}.kv_a_layernorm", rank)
        self.attn = MLAAttention(
            *(config.num_heads, config.qk_nope_head_dim, rope, config.v_head_dim, rank),
            scaling=config.softmax_scale,
            rotary=rotary,
            prefix=prefix,
            backend=build.backends.attention,
            **build.options,
        )
        self.o_proj = RowParallelLinear(
            config.num_heads * config.v_head_dim, hidden, prefix=f"{prefix}.o_proj", **build.options
        )

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """x (T, hidden), positions (T,) int64 -> (T, hidden), summed over the ranks."""
        q = self._queries(x).view(len(x), self.attn.spec.num_heads, -1)
        sizes = (self.config.kv_lora_rank, self.config.qk_rope_head_dim)
        kv_c, k_pe = self.kv_a_proj_with_mqa(x).split(sizes, dim=-1)
        out = self.attn(q, self.kv_a_layernorm(kv_c), k_pe, positions, cache, metadata)
        summed: torch.Tensor = self.o_proj(out)
        return summed

    def make_cache(self, num_pages: int, page_size: int, dtype: torch.dtype) -> MLAKVCache:
        """Of latents, which all ranks hold."""
        sizes = (self.config.kv_lora_rank, self.config.qk_rope_head_dim)
        scale = self.cache_scales["k_scale"] if dtype is torch.float8_e4m3fn else 1.0
        return MLAKVCache(
            *(num_pages, page_size, *sizes), dtype=dtype, device=self.attn.device, scale=scale
        )

    def plan(self, cache: Cache, metadata: AttentionMetadata) -> None:
        """Lets the attention's backend plan for a batch."""
        assert isinstance(cache, MLAKVCache)
        self.attn.plan(cache, metadata)

    @property
    def values_per_token(self) -> int:
        """A latent and a rotated key."""
        return self.config.kv_lora_rank + self.config.qk_rope_head_dim

    def _queries(self, x: torch.Tensor) -> torch.Tensor:
        if self.config.q_lora_rank is None:
            out: torch.Tensor = self.q_proj(x)
        else:
            out = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        return out
