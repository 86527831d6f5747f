"""Attention over paged keys and values in plain torch: what the other backends are compared with.

Request by request, from the definition: logits in float32, one softmax over all that a query sees,
one rounding of the output. Each step is a function of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.kernels.attention.problem import AttentionBackend

if TYPE_CHECKING:
    from layers.attention.kv_cache import PagedKVCache
    from layers.attention.metadata import AttentionMetadata

MASKED = float("-inf")


class TorchAttention(AttentionBackend):
    """On any device, at any shape."""

    def __call__(
        self,
        q: torch.Tensor,
        cache: PagedKVCache,
        metadata: AttentionMetadata,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """As `AttentionBackend.__call__`."""
        spec = self.spec
        out = torch.empty(
            (q.shape[0], spec.num_heads, spec.v_head_dim), dtype=q.dtype, device=q.device
        )
        start = 0
        for request, queries in enumerate(metadata.query_lens_host):
            keys = metadata.kv_lens_host[request]
            rows = slice(start, start + queries)
            places = pages_of(metadata.page_table[request], keys, metadata.page_size)
            k = gather(cache.k, places, keys, cache.k_scale)
            v = gather(cache.v, places, keys, cache.v_scale)
            head = kv_head(spec.num_heads, spec.num_kv_heads, q.device)
            scores = logits(q[rows], k[:, head], spec.scaling, spec.logit_soft_cap)
            seen = seen_keys(metadata, request, rows, keys, spec.sliding_window)
            weights = softmax(scores.masked_fill(~seen, MASKED), sinks)
            out[rows] = weigh(weights, v[:, head]).to(q.dtype)
            start += queries
        return out


def pages_of(row: torch.Tensor, keys: int, page_size: int) -> torch.Tensor:
    """The numbers of a request's pages in the order of its text: (⌈keys / page_size⌉,) int64."""
    return row[: -(-keys // page_size)].to(torch.int64)


def gather(pages: torch.Tensor, places: torch.Tensor, keys: int, scale: float) -> torch.Tensor:
    """A request's keys or values, (keys, Hkv, D) float32; codes times their scale."""
    rows = pages[places].flatten(0, 1)[:keys].float()
    return rows * scale if pages.dtype is torch.float8_e4m3fn else rows


def kv_head(num_heads: int, num_kv_heads: int, device: torch.device) -> torch.Tensor:
    """(Hq,) int64: the key-value head that each query head reads."""
    return torch.arange(num_heads, device=device) // (num_heads // num_kv_heads)


def logits(q: torch.Tensor, k: torch.Tensor, scaling: float, soft_cap: float) -> torch.Tensor:
    """q (Tq, Hq, D), k (keys, Hq, D) float32 -> (Hq, Tq, keys) float32, scaled, then capped."""
    scores = torch.matmul(q.float().transpose(0, 1), k.permute(1, 2, 0)) * scaling
    return capped(scores, soft_cap) if soft_cap else scores


def capped(scores: torch.Tensor, soft_cap: float) -> torch.Tensor:
    """cap · tanh(scores / cap)."""
    return torch.tanh(scores / soft_cap) * soft_cap


def visible(positions: torch.Tensor, keys: torch.Tensor, window: int | None) -> torch.Tensor:
    """positions (Tq,), keys (n,): places in the text -> (Tq, n) bool: causal, and in the window.

    A window of W shows W keys, the query's own among them.
    """
    distance = positions[:, None] - keys[None, :]
    seen = distance >= 0
    return seen & (distance < window) if window is not None else seen


def draft_visible(
    positions: torch.Tensor, prefix: int, mask: torch.Tensor, window: int | None
) -> torch.Tensor:
    """The prefix and those draft tokens that `mask` (S, S) shows -> (S, prefix + S) bool.

    Distances in a window are by `positions` (S,), each draft token's place in the text.
    """
    before = torch.arange(prefix, device=positions.device)
    distance = positions[:, None] - torch.cat([before, positions])[None, :]
    # What the mask shows may lie ahead: drafts of one block see all of each other.
    seen = distance < window if window is not None else torch.ones_like(distance, dtype=torch.bool)
    seen[:, prefix:] &= mask
    return seen


def seen_keys(
    metadata: AttentionMetadata, request: int, rows: slice, keys: int, window: int | None
) -> torch.Tensor:
    """Which of a request's keys its query tokens see: (Tq, keys) bool."""
    positions = metadata.positions[rows]
    if metadata.mask is not None:
        prefix = keys - metadata.query_lens_host[request]
        return draft_visible(positions, prefix, metadata.mask[request], window)
    return visible(positions, torch.arange(keys, device=positions.device), window)


def softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """(Hq, Tq, keys) float32 -> weights of the keys; a head's sink takes its share of the sum."""
    if sinks is None:
        return torch.softmax(scores, dim=-1)
    column = sinks.float()[:, None, None].expand(-1, scores.shape[1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]


def weigh(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """weights (Hq, Tq, keys), v (keys, Hq, Dv) float32 -> (Tq, Hq, Dv) float32."""
    return torch.matmul(weights, v.transpose(0, 1)).transpose(0, 1)
