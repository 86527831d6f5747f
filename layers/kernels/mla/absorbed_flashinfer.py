"""FlashInfer's MLA over a paged cache (`BatchMLAPagedAttentionWrapper`, 0.6.13 to 0.7.4).

On sm90 its backend "fa3", elsewhere "fa2". It plans on the host how tiles of 64 or 128 rows (tokens
times heads) and splits of their keys spread over the multiprocessors. Splits are stored in the
queries' dtype, which rounds an output once more where keys were split.
"""

from __future__ import annotations

from functools import cache as cached
from typing import TYPE_CHECKING

import torch
from flashinfer.mla import BatchMLAPagedAttentionWrapper

from layers.kernels.attention.flashinfer_pages import Pages
from layers.kernels.capability import device_arch
from layers.kernels.mla.plans import plan_once
from layers.kernels.mla.problem import AbsorbedBackend, MLASpec

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata
    from layers.attention.mla.kv_cache import MLAKVCache

WORKSPACE_BYTES = 128 * 2**20


@cached
def workspace(device: torch.device) -> torch.Tensor:
    """Memory for split outputs, shared by all layers: one stream at a time may use it."""
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


class FlashInferPlan:
    """One batch's plan, with the buffers that a captured graph reads."""

    def __init__(self, spec: MLASpec, cache: MLAKVCache, metadata: AttentionMetadata) -> None:
        device = cache.device
        self._spec = spec
        self._kv_dtype = cache.dtype
        self._pages = pages = Pages(metadata)
        self._copied: torch.cuda.Event | None = None
        with torch.cuda.device(device):
            self.wrapper = BatchMLAPagedAttentionWrapper(
                workspace(device),
                use_cuda_graph=True,
                qo_indptr=torch.zeros_like(pages.indptr_buffer),
                kv_indptr=pages.indptr_buffer,
                kv_indices=pages.indices_buffer,
                kv_len_arr=pages.last_page_buffer,
                backend="fa3" if device_arch(device) == (9, 0) else "fa2",
            )
        self.refresh(metadata)

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Plans for the metadata's lengths and pages, in the same buffers."""
        if self._copied is not None:
            # The last plan is copied from pinned memory that the next one writes.
            self._copied.synchronize()
        spec, pages = self._spec, self._pages
        pages.refresh(metadata)
        with torch.cuda.device(metadata.page_table.device):
            self.wrapper.plan(
                qo_indptr=pages.starts,
                kv_indptr=pages.indptr,
                kv_indices=pages.indices,
                kv_len_arr=torch.tensor(metadata.kv_lens_host, dtype=torch.int32),
                num_heads=spec.num_heads,
                head_dim_ckv=spec.kv_lora_rank,
                head_dim_kpe=spec.qk_rope_head_dim,
                page_size=metadata.page_size,
                causal=metadata.mode == "extend",
                sm_scale=spec.scaling,
                q_data_type=spec.dtype,
                kv_data_type=self._kv_dtype,
            )
            self._copied = torch.cuda.Event()
            self._copied.record()


class FlashInferAbsorbed(AbsorbedBackend):
    """Latents of 512 + 64 values, pages of any size; no draft masks."""

    def plan(self, cache: MLAKVCache, metadata: AttentionMetadata) -> None:
        """As `AbsorbedBackend.plan`."""
        self._planned(cache, metadata)

    def __call__(
        self, q: torch.Tensor, cache: MLAKVCache, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `AbsorbedBackend.__call__`."""
        rank = self.spec.kv_lora_rank
        wrapper = self._planned(cache, metadata).wrapper
        with torch.cuda.device_of(q):
            out: torch.Tensor = wrapper.run(
                q_nope=q[..., :rank],
                q_pe=q[..., rank:],
                ckv_cache=cache.pages[..., :rank],
                kpe_cache=cache.pages[..., rank:],
                out=torch.empty((*q.shape[:2], rank), dtype=q.dtype, device=q.device),
            )
        return out

    def _planned(self, cache: MLAKVCache, metadata: AttentionMetadata) -> FlashInferPlan:
        key = ("mla_absorbed", "flashinfer", self.spec, cache.dtype)
        return plan_once(metadata, key, lambda: FlashInferPlan(self.spec, cache, metadata))
