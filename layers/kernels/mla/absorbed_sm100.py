"""MLA decode kernels of sm100 (B200): FlashInfer's trtllm-gen, and sgl_kernel's of CUTLASS.

Called as the sources of flashinfer 0.6.13 and sgl_kernel 0.4.2 say. They have never run: they need
a GPU that was not at hand.

FlashInfer's own CUTLASS MLA is left out: its wrapper copies the whole cache in every call, and
takes no scale.
"""

from __future__ import annotations

from functools import cache as cached
from typing import TYPE_CHECKING

import torch

from layers.kernels.mla.plans import plan_once
from layers.kernels.mla.problem import AbsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache

# Of tokens, in whose multiples both kernels read the page table.
TABLE_TOKENS = 128
WORKSPACE_BYTES = 128 * 2**20


@cached
def workspace(device: torch.device) -> torch.Tensor:
    """Zeros, as trtllm-gen wants them at first use; shared by all layers, on one stream."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


class PaddedTable:
    """A page table whose rows reach over a multiple of 128 tokens, as both kernels ask.

    Attributes:
        table: (B, pages) int32; what was added is page 0, and is not attended to.
    """

    def __init__(self, metadata: AttentionMetadata) -> None:
        pages = metadata.page_table.shape[1]
        unit = TABLE_TOKENS // metadata.page_size
        missing = -pages % unit
        self.table = torch.nn.functional.pad(metadata.page_table, (0, missing))

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Takes over other pages, in the same memory."""
        self.table[:, : metadata.page_table.shape[1]] = metadata.page_table


class _Sm100Absorbed(AbsorbedBackend):
    def plan(self, cache: MLAKVCache, metadata: AttentionMetadata) -> None:
        """As `AbsorbedBackend.plan`."""
        self._table(metadata)

    def _table(self, metadata: AttentionMetadata) -> torch.Tensor:
        key = ("mla_absorbed", "sm100")
        return plan_once(metadata, key, lambda: PaddedTable(metadata)).table


class TrtllmAbsorbed(_Sm100Absorbed):
    """`flashinfer.mla.trtllm_batch_decode_with_kv_cache_mla`, one query token a request."""

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        from flashinfer.mla import trtllm_batch_decode_with_kv_cache_mla

        spec = self.spec
        with torch.cuda.device_of(q):
            out: torch.Tensor = trtllm_batch_decode_with_kv_cache_mla(
                query=q.unsqueeze(1),
                kv_cache=cache.pages.unsqueeze(1),
                workspace_buffer=workspace(q.device),
                qk_nope_head_dim=spec.qk_nope_head_dim,
                kv_lora_rank=spec.kv_lora_rank,
                qk_rope_head_dim=spec.qk_rope_head_dim,
                block_tables=self._table(metadata),
                seq_lens=metadata.kv_lens,
                max_seq_len=metadata.max_kv_len,
                bmm1_scale=spec.scaling,
                bmm2_scale=1.0,
                backend="trtllm-gen",
            )
        return out.view(*q.shape[:2], spec.kv_lora_rank)


class CutlassAbsorbed(_Sm100Absorbed):
    """`sgl_kernel.cutlass_mla_decode`, one query token a request, at most 128 heads."""

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        from sgl_kernel import cutlass_mla_decode, cutlass_mla_get_workspace_size

        spec, table = self.spec, self._table(metadata)
        tokens = table.shape[1] * metadata.page_size
        with torch.cuda.device_of(q):
            size = cutlass_mla_get_workspace_size(tokens, q.shape[0])
            out: torch.Tensor = cutlass_mla_decode(
                q[..., : spec.kv_lora_rank],
                q[..., spec.kv_lora_rank :],
                cache.pages,
                metadata.kv_lens,
                table,
                torch.empty(size, dtype=torch.uint8, device=q.device),
                spec.scaling,
            )
        return out
