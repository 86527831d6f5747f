"""An MLA layer of DeepSeek-V3's sizes, and random batches of requests for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.attention.mla.layer import MLAAttention
from layers.rotary.embedding import RotaryEmbedding
from layers.sharding import ceil_div
from layers.weights import load_weights, process_weights_after_loading

DTYPE = torch.bfloat16
PAGE_SIZE = 64
RANK, NOPE, ROPE, V = 512, 128, 64, 128
# Query tokens of all requests together, of prompts that come in parts.
TOKENS_AT_ONCE = 1024


@dataclass(frozen=True)
class Batch:
    """What a layer's forward takes, and what is to be done for it.

    mode: "decode", "extend" of prompts whose last part comes now, or "unabsorbed" of whole prompts.
    heads: of the rank.
    requests, context, queries: how many requests, the keys and the query tokens of each.
    forward: arguments of the layer's forward.
    kernel: arguments of the layer's kernel, that of the absorbed path or the other.
    """

    mode: str
    heads: int
    requests: int
    context: int
    queries: int
    forward: tuple[Any, ...]
    kernel: tuple[Any, ...]
    cache: MLAKVCache
    metadata: AttentionMetadata

    @property
    def latent_bytes(self) -> int:
        """Of the latents that must be read at least once."""
        a_token: int = (RANK + ROPE) * DTYPE.itemsize
        return self.requests * self.context * a_token

    @property
    def operations(self) -> int:
        """Multiplications and additions of the path, over the keys that queries see."""
        pairs = self.queries * (self.context - self.queries)
        pairs += self.queries * (self.queries + 1) // 2
        each = NOPE + ROPE + V if self.mode == "unabsorbed" else 2 * RANK + ROPE
        return 2 * self.requests * pairs * self.heads * each


def ready_layer(heads: int, mode: str, backend: str, device: torch.device) -> MLAAttention:
    """A layer with random weights, that is ready, with a backend for a batch's mode.

    Prompts take the absorbed path too, but in mode "unabsorbed".

    Raises:
        BackendUnavailable: the backend cannot run there.
    """
    rotary = RotaryEmbedding(ROPE, 10000.0, 2**14, "gptj", device=device)
    layer = MLAAttention(
        *(heads, NOPE, ROPE, V, RANK),
        rotary=rotary,
        params_dtype=DTYPE,
        prefix="attn",
        backend={mode: backend},
        path="auto" if mode == "unabsorbed" else "absorbed",
        device=device,
    )
    weight = torch.randn(heads * (NOPE + V), RANK, device=device) * RANK**-0.5
    load_weights(layer, {"kv_b_proj.weight": weight})
    process_weights_after_loading(layer)
    return layer


def random_batch(heads: int, mode: str, requests: int, context: int, device: torch.device) -> Batch:
    """Requests of one length, whose pages lie in a random order."""
    at_once = {"decode": 1, "extend": max(1, TOKENS_AT_ONCE // requests), "unabsorbed": context}
    queries = min(context, at_once[mode])
    pages = ceil_div(context, PAGE_SIZE)
    order = torch.randperm(requests * pages, device=device)
    table = order.to(torch.int32).view(requests, pages)
    lengths = [context] * requests
    if mode == "decode":
        metadata = AttentionMetadata.decode(lengths, table, PAGE_SIZE)
    else:
        metadata = AttentionMetadata.extend([queries] * requests, lengths, table, PAGE_SIZE)
    cache = MLAKVCache(requests * pages, PAGE_SIZE, RANK, ROPE, DTYPE, device)
    cache.pages.normal_()
    tokens = requests * queries

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=DTYPE, device=device)

    q, kv_c, k_pe = random(tokens, heads, NOPE + ROPE), random(tokens, RANK), random(tokens, ROPE)
    forward = (q, kv_c, k_pe, metadata.positions, cache, metadata)
    kernel: tuple[Any, ...] = (random(tokens, heads, RANK + ROPE), cache, metadata)
    if mode == "unabsorbed":
        kernel = (q, torch.randn_like(q), random(tokens, heads, V), metadata)
    return Batch(mode, heads, requests, context, queries, forward, kernel, cache, metadata)
