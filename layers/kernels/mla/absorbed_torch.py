"""Attention to latents in plain torch: what the other backends are compared with.

Request by request, from the definition: logits in float32, one softmax over all that a query sees,
one rounding of the output. Each step is a function of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.kernels.mla.problem import AbsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache

MASKED = float("-inf")


class TorchAbsorbed(AbsorbedBackend):
    """On any device, at any shape; a CUDA graph keeps the lengths that it was captured with."""

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        rank = self.spec.kv_lora_rank
        out = torch.empty((*q.shape[:2], rank), dtype=q.dtype, device=q.device)
        start = 0
        for request, queries in enumerate(metadata.query_lens_host):
            keys = metadata.kv_lens_host[request]
            rows = slice(start, start + queries)
            latents = gather(cache, pages_of(metadata, request, keys), keys)
            scores = logits(q[rows], latents, self.spec.scaling)
            seen = seen_keys(metadata, request, queries, keys)
            weights = softmax(scores, seen)
            out[rows] = weigh(weights, values_of(latents, rank)).to(q.dtype)
            start += queries
        return out


def pages_of(metadata: AttentionMetadata, request: int, keys: int) -> torch.Tensor:
    """The numbers of a request's pages in the order of its text: (⌈keys / page_size⌉,) int64."""
    return metadata.page_table[request, : -(-keys // metadata.page_size)].to(torch.int64)


def gather(cache: MLAKVCache, places: torch.Tensor, keys: int) -> torch.Tensor:
    """A request's latents, (keys, R + rope) float32; codes times their scale."""
    rows = cache.pages[places].flatten(0, 1)[:keys].float()
    return rows * cache.scale if cache.is_fp8 else rows


def values_of(latents: torch.Tensor, rank: int) -> torch.Tensor:
    """What is weighed: the latent without its rotated key, (keys, R)."""
    return latents[:, :rank]


def logits(q: torch.Tensor, latents: torch.Tensor, scaling: float) -> torch.Tensor:
    """q (Tq, H, R + rope), latents (keys, R + rope) float32 -> (H, Tq, keys) float32."""
    return torch.matmul(q.float().transpose(0, 1), latents.t()) * scaling


def visible(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    """Causal, the queries being the last of the keys: (queries, keys) bool."""
    positions = torch.arange(keys - queries, keys, device=device)
    return torch.arange(keys, device=device)[None, :] <= positions[:, None]


def draft_visible(keys: int, mask: torch.Tensor) -> torch.Tensor:
    """The prefix, and those draft tokens that `mask` (S, S) shows: (S, keys) bool."""
    before = mask.new_ones((len(mask), keys - len(mask)))
    return torch.cat([before, mask], dim=1)


def seen_keys(metadata: AttentionMetadata, request: int, queries: int, keys: int) -> torch.Tensor:
    """Which of a request's keys its query tokens see: (queries, keys) bool."""
    if metadata.mask is not None:
        return draft_visible(keys, metadata.mask[request])
    return visible(queries, keys, metadata.page_table.device)


def softmax(scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """(H, Tq, keys) float32 and (Tq, keys) bool -> weights (H, Tq, keys)."""
    return torch.softmax(scores.masked_fill(~seen, MASKED), dim=-1)


def weigh(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """weights (H, Tq, keys), values (keys, R) float32 -> (Tq, H, R) float32."""
    return torch.matmul(weights, values).transpose(0, 1)
