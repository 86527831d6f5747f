# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.moe.static_fp8_quant_by_expert`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.triton_e4m3 import e4m3_codes
from layers.kernels.moe.routing import Routing

BLOCK = 1024


@triton.jit
def _quantise(h_ptr, ids_ptr, scale_ptr, codes_ptr, scales_ptr, columns, BLOCK: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64)
    expert = tl.maximum(tl.load(ids_ptr + pair), 0)
    scale = tl.load(scale_ptr + expert)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    h = tl.load(h_ptr + pair * columns + column, mask=inside, other=0.0).to(tl.float32)
    quotient = tl.div_rn(h, tl.zeros((BLOCK,), dtype=tl.float32) + scale)
    quotient = tl.where(tl.abs(h) == float("inf"), float("nan"), quotient)
    tl.store(codes_ptr + pair * columns + column, e4m3_codes(quotient), mask=inside)
    tl.store(scales_ptr + pair, scale)


def quantise_triton(
    h: torch.Tensor, routing: Routing, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `static_fp8_quant_by_expert.quantise_torch`, on a GPU; h contiguous."""
    pairs, columns = h.shape
    codes = torch.empty((pairs, columns), dtype=torch.float8_e4m3fn, device=h.device)
    scales = torch.empty((pairs, 1), dtype=torch.float32, device=h.device)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(h):
        _quantise[(pairs, triton.cdiv(columns, BLOCK))](
            *(h, routing.ids, scale, codes, scales, columns), BLOCK=BLOCK
        )
    return codes, scales
