# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.static_fp8_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.triton_e4m3 import e4m3_codes

BLOCK = 2048


@triton.jit
def _quantise(
    x_ptr,
    codes_ptr,
    scale_ptr,
    scales_ptr,
    columns,
    x_stride,
    PER_ROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    scale = tl.load(scale_ptr)
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    quotient = tl.div_rn(x, tl.full((BLOCK,), 0.0, tl.float32) + scale)
    # A finite x may overflow the quotient; an Inf must not saturate as that does.
    quotient = tl.where(tl.abs(x) == float("inf"), float("nan"), quotient)
    tl.store(codes_ptr + row * columns + column, e4m3_codes(quotient), mask=inside)
    if PER_ROW:
        tl.store(scales_ptr + row, scale, mask=tl.program_id(1) == 0)


def quantise_triton(
    x: torch.Tensor, scale: torch.Tensor, per_row: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes and returns what `static_fp8_quant.quantise_torch` does, on a GPU, M > 0."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    codes = torch.empty((rows, columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = scale.new_empty((rows, 1)) if per_row else scale
    grid = (rows, triton.cdiv(columns, BLOCK))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[grid](
            *(x, codes, scale, scales, columns, x.stride(0)), PER_ROW=per_row, BLOCK=BLOCK
        )
    return codes, scales
