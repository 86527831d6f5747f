"""A layer of a common size, and random batches of requests for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.layer import Attention
from layers.attention.metadata import AttentionMetadata
from layers.sharding import ceil_div
from layers.weights import process_weights_after_loading

DTYPE = torch.bfloat16
PAGE_SIZE = 16
# Query tokens of all requests together, of prompts that come in parts.
TOKENS_AT_ONCE = 32768


@dataclass(frozen=True)
class Sizes:
    """Of an attention layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Batch:
    """What a layer's forward takes, and what is to be done for it.

    mode: "decode", or "extend" of prompts whose last part comes now.
    requests, context: how many, and the keys of each.
    queries: query tokens of each.
    """

    mode: str
    requests: int
    context: int
    queries: int
    sizes: Sizes
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cache: PagedKVCache
    metadata: AttentionMetadata

    @property
    def key_bytes(self) -> int:
        """Of the keys and values that must be read at least once."""
        a_key: int = 2 * self.sizes.num_kv_heads * self.sizes.head_dim * DTYPE.itemsize
        return self.requests * self.context * a_key

    @property
    def operations(self) -> int:
        """Multiplications and additions of all queries with the keys that they see."""
        pairs = self.queries * (self.context - self.queries)
        pairs += self.queries * (self.queries + 1) // 2
        return 4 * self.requests * pairs * self.sizes.num_heads * self.sizes.head_dim


def ready_layer(sizes: Sizes, backend: str, device: torch.device) -> Attention:
    """A layer that is ready.

    Raises:
        BackendUnavailable: the backend cannot run there.
    """
    layer = Attention(
        *(sizes.num_heads, sizes.num_kv_heads, sizes.head_dim),
        params_dtype=DTYPE,
        prefix="attn",
        backend=backend,
        device=device,
    )
    process_weights_after_loading(layer)
    return layer


def random_batch(
    sizes: Sizes, mode: str, requests: int, context: int, device: torch.device
) -> Batch:
    """Requests of one length, whose pages lie in a random order."""
    queries = 1 if mode == "decode" else min(context, max(1, TOKENS_AT_ONCE // requests))
    pages = ceil_div(context, PAGE_SIZE)
    order = torch.randperm(requests * pages, device=device)
    table = order.to(torch.int32).view(requests, pages)
    lengths = [context] * requests
    if mode == "decode":
        metadata = AttentionMetadata.decode(lengths, table, PAGE_SIZE)
    else:
        metadata = AttentionMetadata.extend([queries] * requests, lengths, table, PAGE_SIZE)
    heads, kv_heads, dim = sizes.num_heads, sizes.num_kv_heads, sizes.head_dim
    cache = PagedKVCache(requests * pages, PAGE_SIZE, kv_heads, dim, dtype=DTYPE, device=device)
    cache.k.normal_()
    cache.v.normal_()
    q, k, v = (
        torch.randn(requests * queries, count, dim, dtype=DTYPE, device=device)
        for count in (heads, kv_heads, kv_heads)
    )
    return Batch(mode, requests, context, queries, sizes, q, k, v, cache, metadata)
