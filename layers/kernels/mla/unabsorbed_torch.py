"""Attention of whole prompts to keys and values of every head, in plain torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.kernels.mla.absorbed_torch import softmax, visible
from layers.kernels.mla.problem import UnabsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata


class TorchUnabsorbed(UnabsorbedBackend):
    """On any device, at any shape: logits and softmax in float32, one rounding of the output."""

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `UnabsorbedBackend.__call__`."""
        out = torch.empty(v.shape, dtype=q.dtype, device=q.device)
        start = 0
        for queries in metadata.query_lens_host:
            rows = slice(start, start + queries)
            scores = logits(q[rows], k[rows], self.spec.scaling)
            weights = softmax(scores, visible(queries, queries, q.device))
            out[rows] = weigh(weights, v[rows]).to(q.dtype)
            start += queries
        return out


def logits(q: torch.Tensor, k: torch.Tensor, scaling: float) -> torch.Tensor:
    """q, k (Tq, H, D) -> (H, Tq, Tq) float32."""
    return torch.matmul(q.float().transpose(0, 1), k.float().permute(1, 2, 0)) * scaling


def weigh(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """weights (H, Tq, Tq) float32, v (Tq, H, Dv) -> (Tq, H, Dv) float32."""
    return torch.matmul(weights, v.float().transpose(0, 1)).transpose(0, 1)
