"""Attention over paged keys and values by FlashInfer's batch wrappers.

A wrapper plans for a batch on the host, then runs for every layer of the same sizes. Its template
is always named: fa3 (sm90) for extend without fp8, else fa2, from sm80 on.

Seen right on an H200: head sizes 64 and 128, with and without a window, all modes and page sizes;
without a window a soft cap, sinks and fp8 caches as well. Written to its sources and **never run**:
head size 256, a soft cap, sinks or an fp8 cache in a window, and fa2 on another GPU than sm90.

Where its arithmetic differs from `layers.kernels.attention.attend_torch`: weights of the softmax
are rounded to the queries' dtype before the product with the values, and with an fp8 cache the
output is rounded before and after it is multiplied by v_scale.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from flashinfer import BatchDecodeWithPagedKVCacheWrapper, BatchPrefillWithPagedKVCacheWrapper
from flashinfer.jit.attention.variants import attention_sink_decl

from layers.kernels.attention.attend_torch import seen_keys
from layers.kernels.attention.flashinfer_pages import Pages
from layers.kernels.attention.problem import AttentionBackend, AttentionSpec
from layers.kernels.capability import device_arch

if TYPE_CHECKING:
    from layers.attention.kv_cache import PagedKVCache
    from layers.attention.metadata import AttentionMetadata

# Splits of long contexts keep their parts there, in float32.
WORKSPACE_BYTES = 384 * 1024 * 1024


@cache
def workspace(device: torch.device) -> torch.Tensor:
    """Scratch memory of a device, shared by all layers: they run one after the other."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


class FlashInferAttention(AttentionBackend):
    """On GPUs from sm80 on, within the limits that `layers.kernels.attention.attend` states."""

    def plan(self, cache: PagedKVCache, metadata: AttentionMetadata) -> None:
        """Plans for the batch, once for all layers of the same sizes.

        Raises:
            RuntimeError: a CUDA graph is being captured, and nobody has planned before.
        """
        key = self._key(cache)
        if key in metadata.plans:
            return
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "backend 'flashinfer' has no plan for this batch, and cannot make one while a CUDA "
                "graph is captured: it reads lengths on the host. Call the layer's plan(cache, "
                "metadata), or its forward, once before the capture."
            )
        metadata.plans[key] = FlashInferPlan(self.spec, cache.dtype, metadata)

    def __call__(
        self,
        q: torch.Tensor,
        cache: PagedKVCache,
        metadata: AttentionMetadata,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """As `AttentionBackend.__call__`."""
        self.plan(cache, metadata)
        plan = metadata.plans[self._key(cache)]
        assert isinstance(plan, FlashInferPlan)
        with torch.cuda.device_of(q):
            return plan.run(q if q.stride(2) == 1 else q.contiguous(), cache, sinks)

    def _key(self, cache: PagedKVCache) -> tuple[str, AttentionSpec, torch.dtype]:
        return ("flashinfer", self.spec, cache.dtype)


class FlashInferPlan:
    """A wrapper that has planned for a batch.

    Batches of decode and draft tokens are planned as for a CUDA graph: with a grid and in memory
    that stay when `AttentionMetadata.update` changes lengths and pages.
    """

    def __init__(
        self, spec: AttentionSpec, kv_dtype: torch.dtype, metadata: AttentionMetadata
    ) -> None:
        self.spec = spec
        self.kv_dtype = kv_dtype
        self.device = metadata.page_table.device
        self.pages = Pages(metadata)
        self.wrapper = self._wrapper(metadata)
        self.refresh(metadata)

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Plans for the batch as it is now; waits for the GPU."""
        self.pages.refresh(metadata)
        with torch.cuda.device(self.device):
            if self._is_plain_decode(metadata):
                self._plan_decode(metadata)
            else:
                self._plan_prefill(metadata)
            # It copies from a buffer of its own on the host, and would write there the next time,
            # or give it back, before a copy that waits for earlier kernels has been made.
            torch.cuda.current_stream().synchronize()

    def _plan_decode(self, metadata: AttentionMetadata) -> None:
        pages = self.pages
        self.wrapper.plan(
            *(pages.indptr, pages.indices, pages.last_page_lens),
            head_dim=self.spec.head_dim,
            **self._options(metadata),
        )

    def _plan_prefill(self, metadata: AttentionMetadata) -> None:
        pages, options = self.pages, self._options(metadata)
        starts, indptr, last = pages.starts, pages.indptr, pages.last_page_lens
        if metadata.mask is not None:
            # Packing the mask reads them on the GPU, and the mask holds the window already.
            starts, indptr, last = (part.to(self.device) for part in (starts, indptr, last))
            options |= {"custom_mask": self._mask(metadata), "window_left": -1}
        self.wrapper.plan(
            *(starts, indptr, pages.indices, last),
            head_dim_qk=self.spec.head_dim,
            head_dim_vo=self.spec.v_head_dim,
            causal=metadata.mask is None,
            **options,
        )

    def _options(self, metadata: AttentionMetadata) -> dict[str, Any]:
        spec = self.spec
        return {
            "num_qo_heads": spec.num_heads,
            "num_kv_heads": spec.num_kv_heads,
            "page_size": metadata.page_size,
            "window_left": -1 if spec.sliding_window is None else spec.sliding_window - 1,
            "logits_soft_cap": spec.logit_soft_cap,
            "sm_scale": spec.scaling,
            "q_data_type": spec.dtype,
            "kv_data_type": self.kv_dtype,
        }

    def run(self, q: torch.Tensor, cache: PagedKVCache, sinks: torch.Tensor | None) -> torch.Tensor:
        """q (T, Hq, D) -> (T, Hq, Dv)."""
        v_scale = cache.v_scale if cache.is_fp8 else None
        if sinks is not None:
            scale = self.spec.scaling * cache.k_scale
            out = self.wrapper.run(q, (cache.k, cache.v), sinks, scale, v_scale=v_scale)
        else:
            k_scale = cache.k_scale if cache.is_fp8 else None
            out = self.wrapper.run(q, (cache.k, cache.v), k_scale=k_scale, v_scale=v_scale)
        attended: torch.Tensor = out
        return attended

    def _is_plain_decode(self, metadata: AttentionMetadata) -> bool:
        return metadata.mode == "decode" and not self.spec.has_sinks

    def _wrapper(self, metadata: AttentionMetadata) -> Any:
        space, pages = workspace(self.device), self.pages
        if metadata.mode == "extend":
            template = self._template()
            return BatchPrefillWithPagedKVCacheWrapper(
                space, "NHD", backend=template, **self._sink_variant(template)
            )
        if self._is_plain_decode(metadata):
            # Its other kernel, without tensor cores, is slower for groups and limited in them.
            return BatchDecodeWithPagedKVCacheWrapper(
                *(space, "NHD", True, True),
                *(pages.indptr_buffer, pages.indices_buffer, pages.last_page_buffer),
                backend="fa2",
            )
        return BatchPrefillWithPagedKVCacheWrapper(
            *(space, "NHD", True, torch.empty_like(pages.indptr_buffer)),
            *(pages.indptr_buffer, pages.indices_buffer, pages.last_page_buffer),
            **self._mask_buffers(metadata),
            backend="fa2",
            **self._sink_variant("fa2"),
        )

    def _template(self) -> str:
        """Fa3 wants sm90, and keys of the queries' dtype."""
        has_fa3 = device_arch(self.device) == (9, 0) and self.kv_dtype is self.spec.dtype
        return "fa3" if has_fa3 else "fa2"

    def _sink_variant(self, template: str) -> dict[str, Any]:
        """FlashInfer's variant with sinks, under a name that tells all that it is compiled for.

        Its own wrapper leaves head_dim and the cache's dtype out of the name, so that a second
        model's kernel would be the first one's. Without the variant, sinks would be passed over.
        """
        if not self.spec.has_sinks:
            return {}
        spec = self.spec
        windowed = spec.sliding_window is not None
        kinds = "_".join(str(dtype).removeprefix("torch.") for dtype in (spec.dtype, self.kv_dtype))
        name = f"plumbline_sinks_{kinds}_{spec.head_dim}_{spec.v_head_dim}_{windowed}_{template}"
        return {
            "jit_args": [
                *(name, spec.dtype, self.kv_dtype, spec.dtype, torch.int32),
                *(spec.head_dim, spec.v_head_dim, ["sink"], ["float"], ["sm_scale"], ["double"]),
                *("AttentionSink", attention_sink_decl[template]),
            ],
            "jit_kwargs": {
                "use_sliding_window": windowed,
                "use_fp16_qk_reduction": False,
                "pos_encoding_mode": 0,
            },
        }

    def _mask_buffers(self, metadata: AttentionMetadata) -> dict[str, torch.Tensor]:
        if metadata.mask is None:
            return {}
        bits = [count * metadata.max_kv_len for count in metadata.query_lens_host]
        size = sum(-(-count // 8) for count in bits)
        return {
            "custom_mask_buf": torch.zeros(size, dtype=torch.uint8, device=self.device),
            "mask_indptr_buf": torch.empty_like(self.pages.indptr_buffer),
        }

    def _mask(self, metadata: AttentionMetadata) -> torch.Tensor:
        """Which key each draft token sees, request after request, flat."""
        parts, start = [], 0
        for request, count in enumerate(metadata.query_lens_host):
            rows, keys = slice(start, start + count), metadata.kv_lens_host[request]
            parts.append(seen_keys(metadata, request, rows, keys, self.spec.sliding_window))
            start += count
        return torch.cat([part.flatten() for part in parts])
