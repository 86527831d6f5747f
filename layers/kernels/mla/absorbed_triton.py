"""Attention to latents by our Triton kernel: which tiles, how many splits, and the launch.

It ran on an H200 (sm90) alone, and tiles were chosen there by what they compile to: they have not
been timed. Elsewhere they follow from the shared memory that the GPU has, and have never run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
import triton

from layers.kernels.mla.latent_triton import attend_kernel, combine_kernel
from layers.kernels.mla.problem import AbsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache

MAX_SPLITS = 64
# Of multiprocessors, in the last wave of programs too.
BUSY_ENOUGH = 0.85
KIB = 1024


@dataclass(frozen=True)
class Tiles:
    """Rows (tokens times heads) and keys of a step, and how a GPU works on them."""

    rows: int
    keys: int
    warps: int
    stages: int


def choose_tiles(rows: int, shared_memory: int) -> Tiles:
    """Tiles for the longest request's `rows` = tokens · heads.

    Queries, and latents of all stages, lie in shared memory: 1152 bytes a row in 16 bits.
    """
    if shared_memory < 200 * KIB:
        return Tiles(16, 16 if shared_memory < 128 * KIB else 32, warps=4, stages=2)
    if rows <= 16:
        return Tiles(16, 64, warps=4, stages=3)
    return Tiles(64, 64, warps=8, stages=2)


def choose_splits(programs: int, capacity: int, keys: int, multiprocessors: int) -> int:
    """Into how many parts the keys are divided, so that every multiprocessor has work.

    The fewest that keep the multiprocessors busy enough, as each part costs a pass over its output.

    Args:
        programs: without splits.
        capacity: keys that a request has room for. Its keys themselves are not looked at, so that a
            captured CUDA graph stays right for other lengths.
        keys: of a step.
        multiprocessors: of the GPU.
    """
    most = max(1, min(MAX_SPLITS, triton.cdiv(capacity, keys)))

    def busy(splits: int) -> float:
        waves = programs * splits / multiprocessors
        return waves / math.ceil(waves)

    enough = [n for n in range(1, most + 1) if busy(n) >= BUSY_ENOUGH]
    return enough[0] if enough else max(range(1, most + 1), key=busy)


@cache
def properties(device: torch.device) -> tuple[int, int]:
    """A GPU's multiprocessors, and the bytes of shared memory that a program can have."""
    if device.type != "cuda":
        return 1, 227 * KIB
    found = torch.cuda.get_device_properties(device)
    return found.multi_processor_count, found.shared_memory_per_block_optin


class TritonAbsorbed(AbsorbedBackend):
    """Latents of at most 512 and rotated keys of at most 64 values, pages of any size.

    `tiles` and `splits`, where set, take the place of those chosen by shape.
    """

    tiles: Tiles | None = None
    splits: int | None = None

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        spec = self.spec
        all_rows = q.shape[0] * spec.num_heads
        multiprocessors, shared_memory = properties(q.device)
        rows = metadata.max_query_len * spec.num_heads
        tiles = self.tiles or choose_tiles(rows, shared_memory)
        programs = triton.cdiv(rows, tiles.rows) * metadata.num_requests
        splits = self.splits or choose_splits(
            programs, metadata.max_kv_len, tiles.keys, multiprocessors
        )
        out = torch.empty((*q.shape[:2], spec.kv_lora_rank), dtype=q.dtype, device=q.device)
        # Empty without splits, but of one dtype, for which the kernel is compiled.
        shape = (splits if splits > 1 else 0, all_rows, spec.kv_lora_rank)
        parts = torch.empty(shape, dtype=torch.float32, device=q.device)
        sums = torch.empty(shape[:2], dtype=torch.float32, device=q.device)
        # Triton launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(q):
            self._attend(tiles, splits, q, cache, metadata, out, parts, sums)
            if splits > 1:
                self._combine(splits, parts, sums, out)
        return out

    def _attend(
        self,
        tiles: Tiles,
        splits: int,
        q: torch.Tensor,
        cache: MLAKVCache,
        metadata: AttentionMetadata,
        out: torch.Tensor,
        parts: torch.Tensor,
        sums: torch.Tensor,
    ) -> None:
        spec, table = self.spec, metadata.page_table
        rows = metadata.max_query_len * spec.num_heads
        mask = metadata.mask
        attend_kernel[(triton.cdiv(rows, tiles.rows), splits, metadata.num_requests)](
            *(q, cache.pages, table, metadata.qo_indptr, metadata.kv_lens),
            *(table if mask is None else mask.view(torch.uint8), out, parts, sums),
            spec.scaling * cache.scale * math.log2(math.e),
            *(cache.scale, table.stride(0), q.shape[0] * spec.num_heads, splits),
            *(metadata.page_size.bit_length() - 1, spec.num_heads),
            RANK=spec.kv_lora_rank,
            ROPE=spec.qk_rope_head_dim,
            DRAFT=mask is not None,
            SPLIT=splits > 1,
            BLOCK_R=max(16, triton.next_power_of_2(spec.kv_lora_rank)),
            BLOCK_P=max(16, triton.next_power_of_2(spec.qk_rope_head_dim)),
            BLOCK_M=tiles.rows,
            BLOCK_N=tiles.keys,
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )

    def _combine(
        self, splits: int, parts: torch.Tensor, sums: torch.Tensor, out: torch.Tensor
    ) -> None:
        rank = self.spec.kv_lora_rank
        block = min(128, triton.next_power_of_2(rank))
        combine_kernel[(parts.shape[1], triton.cdiv(rank, block))](
            *(parts, sums, out, parts.shape[1], splits),
            RANK=rank,
            BLOCK_S=16 if splits <= 16 else MAX_SPLITS,
            BLOCK_D=block,
            num_warps=4,
        )
