"""Grouped matmuls of a MoE layer with weights of 4-bit blocks: `layers.kernels.moe.grouped`, and

    y[p] = (â[row of p] · ŵ[e]ᵀ) · alpha[e] + bias[e],   e the expert of p

ŵ is codes times block scales, and â likewise where x is quantised, else x itself. Both are exact;
products are summed over K in float32; alpha and the bias are applied in float32, in this order, and
nothing is rounded. Rows of ŵ in equal runs, gate and up, may have an alpha each.

- NVFP4: backend `torch` takes quantised rows (W4A4), `triton` rows as they are (weight-only).
- MXFP4: both are weight-only.

FlashInfer's fused kernels do more than these operations: see `layers.moe.runners`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.dequantise import dequantise, multiply_slices
from layers.kernels.fp4.scales import MXFP4, NVFP4, BlockFormat
from layers.kernels.moe.grouped import invariant
from layers.kernels.moe.routing import Routing


def multiply_torch(
    a: torch.Tensor,
    a_scale: torch.Tensor | None,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
    *,
    block: BlockFormat,
    alpha: torch.Tensor | None = None,
) -> torch.Tensor:
    """The arithmetic above on any device, with at most 16 MiB of dequantised weight at a time.

    Args:
        a: packed codes (T or T · K, columns / 2) uint8; without `a_scale` floats (…, columns).
        a_scale: block scales (T or T · K, columns / group) uint8, row-major; or None.
        weight: (experts, N, columns / 2) uint8, packed E2M1.
        weight_scale: (experts, N128, C4) uint8, each expert's swizzled by itself, see
            `layers.kernels.fp4.swizzle`.
        bias: (experts, N), or None.
        routing: which expert each of the T · K pairs goes to.
        block: the format of the weight, and of a.
        alpha: (experts, runs) float32, for runs of N / runs rows; None is 1.

    Returns:
        (T · K, N) float32; rows of other ranks' pairs are 0.
    """
    rows = weight.shape[1]
    out = torch.zeros((routing.pairs, rows), dtype=torch.float32, device=a.device)
    per_row = routing.pairs_per_row(a)
    for expert, pairs in enumerate(routing.by_expert()):
        if not pairs.numel():
            continue
        own = invariant(pairs // per_row)
        values = a[own].float() if a_scale is None else dequantise(a[own], a_scale[own], block)
        part = multiply_slices(values, weight[expert], weight_scale[expert], block)
        if alpha is not None:
            part *= alpha[expert].repeat_interleave(rows // alpha.shape[1])
        if bias is not None:
            part += bias[expert]
        out[pairs] = part[: pairs.numel()]
    return out


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe_fp4.fp4_grouped_mm_triton import multiply_triton

    return multiply_triton


def _grouped_mm(name: str, block: BlockFormat) -> Operation:
    triton = Needs(package="triton", min_arch=(8, 0), k_multiple=block.group)
    return Operation(
        name,
        (
            Backend("triton", triton, _load_triton),
            Backend("torch", Needs(k_multiple=block.group), lambda: multiply_torch),
        ),
    )


NVFP4_GROUPED_MM = _grouped_mm("nvfp4_grouped_mm", NVFP4)
MXFP4_GROUPED_MM = _grouped_mm("mxfp4_grouped_mm", MXFP4)
