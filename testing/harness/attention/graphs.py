"""Capture an attention layer's forward in a CUDA graph, and replay it for other batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from layers.attention.kv_cache import PagedKVCache
from testing.harness.attention.case import AttentionCase, Batch, Call, make_batch
from testing.harness.attention.examine import judge
from testing.harness.attention.layer import (
    LoadedAttention,
    Tensors,
    build,
    metadata_of,
    tensors_of,
)
from testing.harness.device import device
from testing.harness.tensors import to_numpy

_WARM_UP = 2


@dataclass
class Captured:
    """A graph and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    tensors: Tensors
    output: torch.Tensor

    def replay(self, batch: Batch) -> torch.Tensor:
        """(T, Hq·Dv) for another batch of as many requests and tokens, and its cache, in place."""
        t = self.tensors
        given = tensors_of(batch, t.q.device)
        for mine, its in ((t.q, given.q), (t.k, given.k), (t.v, given.v)):
            mine.copy_(its)
        fill(t.cache, given.cache)
        t.metadata.update(batch.call.lengths, given.metadata.page_table)
        self.graph.replay()
        torch.cuda.synchronize()
        return self.output.clone()


def capture(loaded: LoadedAttention, batch: Batch, num_pages: int) -> Captured:
    """num_pages: of the cache, as many as any batch that is replayed needs."""
    given = tensors_of(batch, loaded.layer.device)
    cache = larger(given.cache, num_pages)
    q, k, v = (x.clone() for x in (given.q, given.k, given.v))
    t = Tensors(q, k, v, cache, given.metadata)
    # Compiles and plans outside the capture, on a stream of its own as torch asks.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            loaded.layer(t.q, t.k, t.v, t.cache, t.metadata)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = loaded.layer(t.q, t.k, t.v, t.cache, t.metadata)
    return Captured(graph, t, output)


def eager(
    loaded: LoadedAttention, batch: Batch, num_pages: int
) -> tuple[torch.Tensor, PagedKVCache]:
    """The same layer outside a graph: output and cache."""
    given = tensors_of(batch, loaded.layer.device)
    cache = larger(given.cache, num_pages)
    metadata = metadata_of(batch, loaded.layer.device)
    return loaded.layer(given.q, given.k, given.v, cache, metadata), cache


def require_replays(case: AttentionCase, calls: Sequence[Call], seed: int) -> None:
    """Capture the first call; replayed for each, output and cache are bit for bit the layer's own.

    Raises:
        AssertionError: they are not, or the output is not the oracle's.
    """
    rng = np.random.default_rng(seed)
    loaded = build(case, rng, device())
    batches = [make_batch(case, call, rng) for call in calls]
    num_pages = max(batch.plan.num_pages for batch in batches)
    captured = capture(loaded, batches[0], num_pages)
    for batch in [*batches, batches[0]]:
        output = captured.replay(batch)
        want, cache = eager(loaded, batch, num_pages)
        assert torch.equal(output.view(torch.int16), want.view(torch.int16)), str(batch.call)
        for mine, its in ((captured.tensors.cache.k, cache.k), (captured.tensors.cache.v, cache.v)):
            assert torch.equal(mine.view(bits_of(mine)), its.view(bits_of(its))), str(batch.call)
        got = to_numpy(output).reshape(-1, case.heads, case.dims[1])
        judge(batch, loaded.sinks, got).require()


def larger(cache: PagedKVCache, num_pages: int) -> PagedKVCache:
    """A cache of that many pages, NaN behind those of `cache`."""
    scales = (cache.k_scale, cache.v_scale)
    sizes = (cache.page_size, cache.num_kv_heads, cache.head_dim, cache.v_head_dim)
    made = PagedKVCache(num_pages, *sizes, cache.dtype, cache.device, *scales)
    fill(made, cache)
    return made


def fill(cache: PagedKVCache, given: PagedKVCache) -> None:
    """The first pages are those of `given`, the others NaN."""
    for mine, its in ((cache.k, given.k), (cache.v, given.v)):
        nan = torch.full((), float("nan"), device=mine.device).to(mine.dtype)
        mine.view(bits_of(mine)).copy_(nan.view(bits_of(mine)).expand(mine.shape))
        mine[: len(its)].view(bits_of(mine)).copy_(its.view(bits_of(mine)))


def bits_of(tensor: torch.Tensor) -> torch.dtype:
    """The integer type of as many bits as one element has."""
    return torch.uint8 if tensor.element_size() == 1 else torch.int16
