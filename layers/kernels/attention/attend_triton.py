"""Attention over paged keys and values by our Triton kernel."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
import triton

from layers.kernels.attention.paged_triton import attend_kernel, combine_kernel
from layers.kernels.attention.problem import AttentionBackend, AttentionSpec
from layers.kernels.attention.tiling import Tiles, choose_splits, choose_tiles
from layers.sharding import ceil_div

if TYPE_CHECKING:
    from layers.attention.kv_cache import PagedKVCache
    from layers.attention.metadata import AttentionMetadata


@cache
def multiprocessors(device: torch.device) -> int:
    """Of a GPU."""
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count


class TritonAttention(AttentionBackend):
    """On GPUs from sm80 on; fp8 caches from sm89 on."""

    def __call__(
        self,
        q: torch.Tensor,
        cache: PagedKVCache,
        metadata: AttentionMetadata,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """As `AttentionBackend.__call__`."""
        rows = metadata.max_query_len * self.spec.group
        tiles = choose_tiles(self.spec, metadata.mode, rows)
        programs = ceil_div(rows, tiles.rows) * self.spec.num_kv_heads * metadata.num_requests
        capacity = metadata.max_kv_len
        splits = choose_splits(programs, capacity, multiprocessors(q.device))
        # Triton launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(q):
            return launch(self.spec, q, cache, metadata, sinks, tiles, splits)


def launch(
    spec: AttentionSpec,
    q: torch.Tensor,
    cache: PagedKVCache,
    metadata: AttentionMetadata,
    sinks: torch.Tensor | None,
    tiles: Tiles,
    splits: int,
) -> torch.Tensor:
    """Runs the kernels; arguments and result as of `AttentionBackend.__call__`."""
    q = q if q.stride(2) == 1 else q.contiguous()
    out = q.new_empty((q.shape[0], spec.num_heads, spec.v_head_dim))
    parts = logs = out
    if splits > 1:
        parts = q.new_empty((splits, *out.shape), dtype=torch.float32)
        logs = q.new_empty((splits, *out.shape[:2]), dtype=torch.float32)
    rows = ceil_div(metadata.max_query_len * spec.group, tiles.rows)
    # What is not there is not read: any pointer will do.
    sinks = q if sinks is None else sinks
    mask = q if metadata.mask is None else metadata.mask.view(torch.uint8)
    attend_kernel[rows * splits, spec.num_kv_heads, metadata.num_requests](
        *(q, cache.k, cache.v, out, parts, logs, sinks),
        *(metadata.qo_indptr, metadata.kv_lens, metadata.page_table, mask, metadata.positions),
        *(q.shape[0], splits, spec.num_heads, spec.group, metadata.page_size.bit_length() - 1),
        *(spec.sliding_window or 0, metadata.page_table.stride(0)),
        *(q.stride(0), q.stride(1), cache.k.stride(1), cache.k.stride(2)),
        *(cache.v.stride(1), cache.v.stride(2), spec.scaling * cache.k_scale, cache.v_scale),
        spec.logit_soft_cap,
        HAS_CAP=spec.logit_soft_cap > 0,
        HAS_WINDOW=spec.sliding_window is not None,
        DRAFT=metadata.mask is not None,
        SINKS=spec.has_sinks and splits == 1,
        SPLIT=splits > 1,
        D=spec.head_dim,
        DV=spec.v_head_dim,
        BLOCK_D=_width(spec.head_dim),
        BLOCK_DV=_width(spec.v_head_dim),
        BLOCK_M=tiles.rows,
        BLOCK_N=tiles.keys,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    if splits > 1:
        _combine(spec, parts, logs, sinks, out, cache.v_scale)
    return out


def _combine(
    spec: AttentionSpec,
    parts: torch.Tensor,
    logs: torch.Tensor,
    sinks: torch.Tensor,
    out: torch.Tensor,
    v_scale: float,
) -> None:
    splits, tokens = parts.shape[:2]
    combine_kernel[(tokens * spec.num_heads,)](
        *(parts, logs, sinks, out, tokens, splits, spec.num_heads, v_scale),
        SINKS=spec.has_sinks,
        DV=spec.v_head_dim,
        BLOCK_S=triton.next_power_of_2(splits),
        BLOCK_DV=_width(spec.v_head_dim),
        num_warps=2,
    )


def _width(head_dim: int) -> int:
    """A head's dimension in a tile: a power of 2, and at least what the tensor cores take."""
    return max(16, 1 << (head_dim - 1).bit_length())
