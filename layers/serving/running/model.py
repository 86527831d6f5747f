"""What the engine asks of a model, be it of `layers.models` or one of known answers in a test."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from layers.attention.metadata import AttentionMetadata

Caches = list[Any]


class ModelConfig(Protocol):
    """Sizes, as config.json has them."""

    vocab_size: int
    hidden_size: int
    max_position: int
    eos_token_ids: tuple[int, ...]


class Draft(Protocol):
    """A next-token-prediction module (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", 2.2).

    Its row at position p takes the hidden state of p and the token of p + 1, and tells of p + 2.
    """

    def make_caches(
        self, num_pages: int, page_size: int, dtype: torch.dtype | None = None
    ) -> Caches:
        """As `Model.make_caches`, of its own layers."""

    def cache_bytes_per_token(self, dtype: torch.dtype | None = None) -> int:
        """Of its own layers."""

    def plan(self, caches: Caches, metadata: AttentionMetadata) -> None:
        """As `Model.plan`."""

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        previous_hidden: torch.Tensor,
        caches: Caches,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """(T,) tokens, (T,) positions, (T, hidden) -> (T, hidden)."""


class Model(Protocol):
    """A decoder over paged caches."""

    config: Any
    device: torch.device
    draft: Any

    def make_caches(
        self, num_pages: int, page_size: int, dtype: torch.dtype | None = None
    ) -> Caches:
        """One a layer, this rank's heads; dtype None is the model's."""

    def cache_bytes_per_token(self, dtype: torch.dtype | None = None) -> int:
        """Of all layers of this rank."""

    def plan(self, caches: Caches, metadata: AttentionMetadata) -> None:
        """Lets the layers plan for a batch, which a graph's capture cannot do."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(n, hidden) -> (n, vocab_size) float32, the same on each rank."""

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        caches: Caches,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """(T,) tokens, (T,) positions -> (T, hidden), after the last norm."""
