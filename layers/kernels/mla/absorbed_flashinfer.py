"""FlashInfer's MLA over a paged cache (`BatchMLAPagedAttentionWrapper`, 0.6.13 to 0.7.4).

On sm90 its backend "fa3", elsewhere "fa2". It plans on the host how tiles of 64 or 128 rows (tokens
times heads) and splits of their keys spread over the multiprocessors. Splits are stored in the
queries' dtype, which rounds an output once more where keys were split.
"""

from __future__ import annotations

from functools import cache as cached
from typing import TYPE_CHECKING

import torch

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
        from flashinfer.mla import BatchMLAPagedAttentionWrapper

        device, requests = cache.device, metadata.num_requests
        sm90 = torch.cuda.get_device_capability(device)[0] == 9
        self._spec = spec
        self._kv_dtype = cache.dtype
        self._copied: torch.cuda.Event | None = None
        with torch.cuda.device(device):
            self.wrapper = BatchMLAPagedAttentionWrapper(
                workspace(device),
                use_cuda_graph=True,
                qo_indptr=_empty(requests + 1, device),
                kv_indptr=_empty(requests + 1, device),
                kv_indices=_empty(metadata.page_table.numel(), device),
                kv_len_arr=_empty(requests, device),
                backend="fa3" if sm90 else "fa2",
            )
        self.refresh(metadata)

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Plans for the metadata's lengths and pages, in the same buffers."""
        if self._copied is not None:
            # The last plan is copied from pinned memory that the next one writes.
            self._copied.synchronize()
        spec = self._spec
        pages = [-(-keys // metadata.page_size) for keys in metadata.kv_lens_host]
        with torch.cuda.device(metadata.page_table.device):
            self.wrapper.plan(
                qo_indptr=_starts(metadata.query_lens_host),
                kv_indptr=_starts(pages),
                kv_indices=_flat(metadata.page_table, pages),
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


def _empty(length: int, device: torch.device) -> torch.Tensor:
    return torch.empty(length, dtype=torch.int32, device=device)


def _starts(lengths: tuple[int, ...] | list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def _flat(page_table: torch.Tensor, pages: list[int]) -> torch.Tensor:
    """Each request's pages, one request after the other: (Σ pages,) int32."""
    counts = torch.tensor(pages)
    row = torch.repeat_interleave(counts)
    column = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
    return page_table[row.to(page_table.device), column.to(page_table.device)]
