"""FlashInfer's attention of whole prompts (`BatchPrefillWithRaggedKVCacheWrapper`).

On sm90 its backend "fa3", elsewhere "fa2".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

from layers.kernels.capability import device_arch
from layers.kernels.mla.absorbed_flashinfer import workspace
from layers.kernels.mla.plans import plan_once
from layers.kernels.mla.problem import MLASpec, UnabsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata


class PromptPlan:
    """One batch's plan."""

    def __init__(self, spec: MLASpec, metadata: AttentionMetadata) -> None:
        device = metadata.page_table.device
        starts = torch.tensor([0, *metadata.query_lens_host]).cumsum(0).to(torch.int32)
        with torch.cuda.device(device):
            self.wrapper = BatchPrefillWithRaggedKVCacheWrapper(
                workspace(device), backend="fa3" if device_arch(device) == (9, 0) else "fa2"
            )
            self.wrapper.plan(
                qo_indptr=starts,
                kv_indptr=starts,
                num_qo_heads=spec.num_heads,
                num_kv_heads=spec.num_heads,
                head_dim_qk=spec.qk_head_dim,
                head_dim_vo=spec.v_head_dim,
                causal=True,
                sm_scale=spec.scaling,
                q_data_type=spec.dtype,
                kv_data_type=spec.dtype,
            )

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Nothing to do: it reads query lengths alone, which stay."""


class FlashInferUnabsorbed(UnabsorbedBackend):
    """Keys of 192 and values of 128."""

    def plan(self, metadata: AttentionMetadata) -> None:
        """As `UnabsorbedBackend.plan`."""
        self._planned(metadata)

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `UnabsorbedBackend.__call__`."""
        with torch.cuda.device_of(q):
            out: torch.Tensor = self._planned(metadata).wrapper.run(q, k, v)
        return out

    def _planned(self, metadata: AttentionMetadata) -> PromptPlan:
        key = ("mla_unabsorbed", "flashinfer", self.spec)
        return plan_once(metadata, key, lambda: PromptPlan(self.spec, metadata))
