"""The frame of every model: embedding, decoder layers with their caches, norm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.models.build import Build
from layers.models.config.base import ModelConfig
from layers.norm.rms_norm import RMSNorm
from layers.vocab.embedding import VocabParallelEmbedding

Cache = PagedKVCache | MLAKVCache
CACHE_SCALES = ("k_scale", "v_scale")


def check_caches(caches: Sequence[Cache], layers: int) -> None:
    """Refuses another number of caches than a model, or its draft, has layers.

    Raises:
        ValueError: with both numbers.
    """
    if len(caches) != layers:
        raise ValueError(
            f"{len(caches)} caches were given, wanted {layers}, one a layer: those of its own "
            f"make_caches()."
        )


class SelfAttention(torch.nn.Module, ABC):  # type: ignore[misc]
    """The attention part of a layer, with its projections.

    Args:
        scales: of CACHE_SCALES those that a cache of FP8 of this attention has.

    Attributes:
        cache_scales: by name; 1, or as the checkpoint has them.
    """

    def __init__(self, scales: Sequence[str]) -> None:
        super().__init__()
        self.cache_scales = dict.fromkeys(scales, 1.0)

    @abstractmethod
    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """x (T, hidden), positions (T,) int64 -> (T, hidden), summed over the ranks."""

    @abstractmethod
    def make_cache(self, num_pages: int, page_size: int, dtype: torch.dtype) -> Cache:
        """A cache of this layer's, on this rank's device."""

    @abstractmethod
    def plan(self, cache: Cache, metadata: AttentionMetadata) -> None:
        """Lets the attention's backend plan for a batch."""

    @property
    @abstractmethod
    def values_per_token(self) -> int:
        """Values that a token leaves in this rank's cache."""


class DecoderLayer(torch.nn.Module):  # type: ignore[misc]
    """x += self_attn(norm(x)); x += mlp(norm(x)).

    Args:
        build: what all layers are built with.
        config: of the model.
        self_attn, mlp: the two parts; mlp takes and gives (T, hidden).
        prefix: the layer's name in the model, such as "model.layers.0".
    """

    def __init__(
        self,
        build: Build,
        config: ModelConfig,
        self_attn: SelfAttention,
        mlp: torch.nn.Module,
        prefix: str,
    ) -> None:
        super().__init__()
        self.self_attn = self_attn
        self.mlp = mlp
        self.input_layernorm = build.norm(config, f"{prefix}.input_layernorm")
        self.post_attention_layernorm = build.norm(config, f"{prefix}.post_attention_layernorm")

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        positions: torch.Tensor,
        cache: Cache,
        metadata: AttentionMetadata,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The stream of hidden states is x + residual, added in the next norm.

        Args:
            x: (T, hidden), the last layer's output.
            residual: (T, hidden), the stream before it; None at the model's start.
            positions: (T,) int64.
            cache: of this layer.
            metadata: of the batch.

        Returns:
            This layer's output and the stream before it.
        """
        if residual is None:
            x, residual = self.input_layernorm(x), x
        else:
            x, residual = self.input_layernorm.add(x, residual)
        x = self.self_attn(x, positions, cache, metadata)
        x, residual = self.post_attention_layernorm.add(x, residual)
        return self.mlp(x), residual


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """What checkpoints have under "model.".

    Attributes:
        layers: the decoder layers, and behind them a layer that drafts, if there is one.
        depth: how many are decoder layers.
    """

    def __init__(self, build: Build, config: ModelConfig, layers: Sequence[DecoderLayer]) -> None:
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(
            config.vocab_size,
            config.hidden_size,
            params_dtype=build.params_dtype,
            prefix="model.embed_tokens",
            device=build.device,
        )
        self.layers = torch.nn.ModuleList(layers)
        self.norm: RMSNorm = build.norm(config, "model.norm")
        self.depth = config.num_layers

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        caches: Sequence[Cache],
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """input_ids, positions (T,) int64 -> (T, hidden), after the norm."""
        x: torch.Tensor = self.embed_tokens(input_ids)
        residual: torch.Tensor | None = None
        for layer, cache in zip(self.decoder_layers, caches, strict=True):
            x, residual = layer(x, residual, positions, cache, metadata)
        assert residual is not None
        normed, _ = self.norm.add(x, residual)
        return normed

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        """Without the one that drafts."""
        return list(self.layers)[: self.depth]
