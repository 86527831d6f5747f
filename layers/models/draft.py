"""Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): a layer that drafts tokens.

    x = eh_proj [enorm(embedding of token p + 1); hnorm(hidden state of p)]

then a decoder layer and shared_head's norm; the main model's head makes logits of token p + 2.
Embedding and head are the main model's. The order within the brackets is that of the published
weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from layers.attention.metadata import AttentionMetadata
from layers.linear.replicated import ReplicatedLinear
from layers.models.build import Build
from layers.models.config.base import ModelConfig
from layers.models.decoder import Cache, DecoderLayer, SelfAttention, check_caches
from layers.norm.rms_norm import RMSNorm
from layers.vocab.embedding import VocabParallelEmbedding


class _SharedHead(torch.nn.Module):  # type: ignore[misc]
    """The norm before the main model's head."""

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        self.norm = norm


class DraftLayer(DecoderLayer):
    """The weights of the module; arguments as of `DecoderLayer`."""

    def __init__(
        self,
        build: Build,
        config: ModelConfig,
        self_attn: SelfAttention,
        mlp: torch.nn.Module,
        prefix: str,
    ) -> None:
        super().__init__(build, config, self_attn, mlp, prefix)
        hidden = config.hidden_size
        self.enorm = build.norm(config, f"{prefix}.enorm")
        self.hnorm = build.norm(config, f"{prefix}.hnorm")
        self.eh_proj = ReplicatedLinear(
            2 * hidden, hidden, prefix=f"{prefix}.eh_proj", **build.unquantised
        )
        self.shared_head = _SharedHead(build.norm(config, f"{prefix}.shared_head.norm"))

    def join(self, embedded: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Both (T, hidden) -> what the decoder layer takes, (T, hidden)."""
        both = torch.cat((self.enorm(embedded), self.hnorm(hidden)), dim=-1)
        out: torch.Tensor = self.eh_proj(both)
        return out


class Draft:
    """What an engine calls to draft tokens: a `DraftLayer` with the main model's embedding.

    Args:
        layer: ready for forward.
        embed_tokens: the main model's.
    """

    def __init__(self, layer: DraftLayer, embed_tokens: VocabParallelEmbedding) -> None:
        self.layer = layer
        self.embed_tokens = embed_tokens

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        previous_hidden: torch.Tensor,
        caches: Sequence[Cache],
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """Hidden states whose logits, by the main model's `logits`, predict the token after next.

        Args:
            input_ids: (T,) int64, in the row of position p the token at p + 1.
            positions: (T,) int64, p: `metadata.positions`.
            previous_hidden: (T, hidden), of p: the main model's, or this method's own.
            caches: of `make_caches`.
            metadata: of the batch.

        Returns:
            (T, hidden) of params_dtype, after shared_head's norm.

        Raises:
            ValueError: something of another number, shape, dtype or device.
        """
        check_caches(caches, 1)
        (cache,) = caches
        x = self.layer.join(self.embed_tokens(input_ids), previous_hidden)
        x, residual = self.layer(x, None, positions, cache, metadata)
        normed, _ = self.layer.shared_head.norm.add(x, residual)
        return normed

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def plan(self, caches: Sequence[Cache], metadata: AttentionMetadata) -> None:
        """Lets the attention plan for a batch; before a CUDA graph's capture."""
        check_caches(caches, 1)
        (cache,) = caches
        self.layer.self_attn.plan(cache, metadata)

    def make_caches(
        self, num_pages: int, page_size: int, dtype: torch.dtype | None = None
    ) -> list[Cache]:
        """One; arguments as of `CausalLM.make_caches`."""
        dtype = self.embed_tokens.params_dtype if dtype is None else dtype
        return [self.layer.self_attn.make_cache(num_pages, page_size, dtype)]

    def cache_bytes_per_token(self, dtype: torch.dtype | None = None) -> int:
        """Bytes that a token takes in this rank's cache."""
        itemsize = (self.embed_tokens.params_dtype if dtype is None else dtype).itemsize
        return int(self.layer.self_attn.values_per_token * itemsize)
