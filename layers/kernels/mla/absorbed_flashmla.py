"""FlashMLA, as sgl_kernel 0.4.2 has it (`flash_mla_with_kvcache`): decode on sm90, pages of 64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sgl_kernel.flash_mla import flash_mla_with_kvcache, get_mla_metadata

from layers.kernels.mla.plans import plan_once
from layers.kernels.mla.problem import AbsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache


class FlashMLAPlan:
    """How the multiprocessors share a batch's keys; worked out on the GPU, once a step.

    Attributes:
        tiles: (parts, 8) int32, splits: (B + 1,) int32; what the kernel calls
            tile_scheduler_metadata and num_splits.
    """

    def __init__(self, heads: int, metadata: AttentionMetadata) -> None:
        self._heads = heads
        self.tiles, self.splits = self._made(metadata)

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Works it out for the metadata's lengths, in the same memory."""
        tiles, splits = self._made(metadata)
        self.tiles.copy_(tiles)
        self.splits.copy_(splits)

    def _made(self, metadata: AttentionMetadata) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.cuda.device_of(metadata.kv_lens):
            tiles, splits = get_mla_metadata(metadata.kv_lens, self._heads, 1)
        return tiles, splits


class FlashMLAAbsorbed(AbsorbedBackend):
    """Latents of 512 + 64 values; one query token a request."""

    def plan(self, cache: MLAKVCache, metadata: AttentionMetadata) -> None:
        """As `AbsorbedBackend.plan`."""
        self._planned(metadata)

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        plan = self._planned(metadata)
        with torch.cuda.device_of(q):
            out, _ = flash_mla_with_kvcache(
                q=q.unsqueeze(1),
                k_cache=cache.pages.unsqueeze(2),
                block_table=metadata.page_table,
                cache_seqlens=metadata.kv_lens,
                head_dim_v=self.spec.kv_lora_rank,
                tile_scheduler_metadata=plan.tiles,
                num_splits=plan.splits,
                softmax_scale=self.spec.scaling,
                causal=False,
            )
        latent: torch.Tensor = out.squeeze(1)
        return latent

    def _planned(self, metadata: AttentionMetadata) -> FlashMLAPlan:
        heads = self.spec.num_heads
        key = ("mla_absorbed", "flashmla", heads)
        return plan_once(metadata, key, lambda: FlashMLAPlan(heads, metadata))
