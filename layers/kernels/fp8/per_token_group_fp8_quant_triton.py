# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.per_token_group_fp8_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.group_scales import GROUP, whole_rows
from layers.kernels.fp8.triton_e4m3 import e4m3_codes, e4m3_scale
from layers.kernels.triton_rounding import magnitude_bits

GROUPS_PER_PROGRAM = 8


@triton.jit(do_not_specialize=["scale_stride"])
def _quantise(
    x_ptr,
    codes_ptr,
    scales_ptr,
    scale_stride,
    columns,
    x_stride,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    amax = tl.max(magnitude_bits(x), axis=1, keep_dims=True).to(tl.float32, bitcast=True)
    scale = e4m3_scale(amax)
    codes = e4m3_codes(tl.div_rn(x, tl.broadcast_to(scale, (GROUPS, GROUP))))
    tl.store(codes_ptr + row * columns + column, codes, mask=inside)
    scale_ptrs = scales_ptr + group[:, None].to(tl.int64) * scale_stride + row
    tl.store(scale_ptrs, scale, mask=group[:, None] < tl.cdiv(columns, GROUP))


def quantise_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes and returns what `per_token_group_fp8_quant.quantise_torch` does, on a GPU, M > 0."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    groups = triton.cdiv(columns, GROUP)
    total = whole_rows(rows)
    # Rows beyond M stay as they are: a matmul that takes rows by fours reads them for nothing.
    codes = torch.empty((total, columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((groups, total), dtype=torch.float32, device=x.device)
    grid = (rows, triton.cdiv(groups, GROUPS_PER_PROGRAM))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[grid](
            *(x, codes, scales, total, columns, x.stride(0)),
            GROUP=GROUP,
            GROUPS=GROUPS_PER_PROGRAM,
        )
    if total == rows:
        return codes, scales.t()
    return codes[:rows], scales[:, :rows].t()
