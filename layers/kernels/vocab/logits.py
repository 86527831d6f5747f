"""Products of 16-bit rows whose sums stay in float32: logits, which a rounding would make equal."""

from __future__ import annotations

import torch

# Weights that are float32 for a moment, where no kernel sums to float32: 16 MiB.
SLICE = 2**22


def multiply_to_float32(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x (M, K), weight (N, K), both of one float dtype -> x weightᵀ (M, N) float32.

    Summed in float32 and not rounded: by cuBLAS on a GPU, elsewhere as a product of float32, of a
    few rows of the weight at a time.
    """
    if x.dtype is torch.float32:
        return torch.mm(x, weight.t())
    if x.is_cuda:
        return torch.mm(x, weight.t(), out_dtype=torch.float32)
    values, rows = x.float(), max(1, SLICE // weight.shape[1])
    parts = [torch.mm(values, part.float().t()) for part in weight.split(rows)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
