"""Attention to latents by our Triton kernels: which of them, and the launch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
import triton

from layers.kernels.mla import latent_hopper_triton as hopper
from layers.kernels.mla.latent_triton import attend_kernel, combine_kernel
from layers.kernels.mla.problem import AbsorbedBackend
from layers.kernels.mla.tiling import HOPPER, KIB, Tiles, choose_splits, choose_tiles

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache

# Values that a program of `combine_kernel` reads.
COMBINED = 8192


@dataclass(frozen=True)
class Gpu:
    """Its multiprocessors, and the bytes of shared memory that a program can have."""

    multiprocessors: int
    shared_memory: int
    is_hopper: bool

    @classmethod
    @cache
    def of(cls, device: torch.device) -> Gpu:
        """What is known of a device; of a CPU, where kernels are interpreted, as of one core."""
        if device.type != "cuda":
            return cls(1, 227 * KIB, is_hopper=False)
        found = torch.cuda.get_device_properties(device)
        arch = (found.major, found.minor)
        return cls(found.multi_processor_count, found.shared_memory_per_block_optin, arch == (9, 0))


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
        spec, gpu = self.spec, Gpu.of(q.device)
        all_rows = q.shape[0] * spec.num_heads
        rows = metadata.max_query_len * spec.num_heads
        tiles = self.tiles or choose_tiles(rows, gpu.shared_memory)
        programs = triton.cdiv(rows, tiles.rows) * metadata.num_requests
        splits = self.splits or choose_splits(
            programs, metadata.max_kv_len, tiles.keys, gpu.multiprocessors * tiles.resident
        )
        out = torch.empty((*q.shape[:2], spec.kv_lora_rank), dtype=q.dtype, device=q.device)
        # Empty without splits, but of one dtype, for which the kernel is compiled.
        shape = (splits if splits > 1 else 0, all_rows, spec.kv_lora_rank)
        parts = torch.empty(shape, dtype=torch.float32, device=q.device)
        sums = torch.empty(shape[:2], dtype=torch.float32, device=q.device)
        # Triton launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(q):
            is_hopper = gpu.is_hopper and tiles == HOPPER and self._fits_hopper(q, cache)
            attend = self._attend_hopper if is_hopper else self._attend
            attend(tiles, splits, q, cache, metadata, (out, parts, sums))
            if splits > 1:
                self._combine(splits, parts, sums, out)
        return out

    def _fits_hopper(self, q: torch.Tensor, cache: MLAKVCache) -> bool:
        sizes = (self.spec.kv_lora_rank, self.spec.qk_rope_head_dim)
        return cache.dtype is q.dtype and sizes == (512, 64)

    def _attend_hopper(
        self,
        tiles: Tiles,
        splits: int,
        q: torch.Tensor,
        cache: MLAKVCache,
        metadata: AttentionMetadata,
        results: tuple[torch.Tensor, ...],
    ) -> None:
        spec, table, mask = self.spec, metadata.page_table, metadata.mask
        rows = metadata.max_query_len * spec.num_heads
        hopper.attend_kernel[(triton.cdiv(rows, tiles.rows), splits, metadata.num_requests)](
            *(q, cache.pages, table, metadata.qo_indptr, metadata.kv_lens),
            *(table if mask is None else mask.view(torch.uint8), *results),
            *(spec.scaling * math.log2(math.e), table.stride(0), q.shape[0] * spec.num_heads),
            *(splits, metadata.page_size.bit_length() - 1, spec.num_heads),
            RANK=spec.kv_lora_rank,
            ROPE=spec.qk_rope_head_dim,
            DRAFT=mask is not None,
            SPLIT=splits > 1,
            num_warps=tiles.warps,
        )

    def _attend(
        self,
        tiles: Tiles,
        splits: int,
        q: torch.Tensor,
        cache: MLAKVCache,
        metadata: AttentionMetadata,
        results: tuple[torch.Tensor, ...],
    ) -> None:
        spec, table, mask = self.spec, metadata.page_table, metadata.mask
        rows = metadata.max_query_len * spec.num_heads
        attend_kernel[(triton.cdiv(rows, tiles.rows), splits, metadata.num_requests)](
            *(q, cache.pages, table, metadata.qo_indptr, metadata.kv_lens),
            *(table if mask is None else mask.view(torch.uint8), *results),
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
        rank, all_rows = self.spec.kv_lora_rank, parts.shape[1]
        # One kernel for 2, 3 and 4 splits: what is not there is not read.
        block_s = max(4, triton.next_power_of_2(splits))
        block_d = min(triton.next_power_of_2(rank), COMBINED // block_s)
        block_m = COMBINED // (block_s * block_d)
        combine_kernel[(triton.cdiv(all_rows, block_m), triton.cdiv(rank, block_d))](
            *(parts, sums, out, all_rows, splits),
            RANK=rank,
            BLOCK_S=block_s,
            BLOCK_M=block_m,
            BLOCK_D=block_d,
            num_warps=4,
        )
