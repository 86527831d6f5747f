# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Quantised activations back to bfloat16 in Triton, for kernels whose tensor cores know no FP4."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp4.fp4_triton import decode_e2m1, decode_scale, swizzled_offset
from layers.kernels.fp4.scales import MXFP4, BlockFormat

COLUMNS_PER_PROGRAM = 512


@triton.jit
def _dequantise(
    packed_ptr,
    scales_ptr,
    out_ptr,
    columns,
    E8M0: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    groups = columns // GROUP
    inside = group < groups
    pair = row * (columns // 2) + group[:, None] * (GROUP // 2) + tl.arange(0, GROUP // 2)[None, :]
    packed = tl.load(packed_ptr + pair, mask=inside[:, None], other=0)
    scale = tl.load(scales_ptr + swizzled_offset(row, group, groups), mask=inside, other=0)
    factor = decode_scale(scale, E8M0)[:, None]
    values = tl.join(decode_e2m1(packed & 0xF) * factor, decode_e2m1(packed >> 4) * factor)
    out_ptrs = out_ptr + pair[:, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    tl.store(out_ptrs, values.to(tl.bfloat16), mask=inside[:, None, None])


def dequantise_triton(
    packed: torch.Tensor, swizzled: torch.Tensor, block: BlockFormat
) -> torch.Tensor:
    """packed (M, K / 2), swizzled scales (M128, C4) on a GPU -> (M, K) bfloat16, exact."""
    rows, columns = packed.shape[0], packed.shape[1] * 2
    out = torch.empty((rows, columns), dtype=torch.bfloat16, device=packed.device)
    grid = (rows, triton.cdiv(columns, COLUMNS_PER_PROGRAM))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(packed):
        _dequantise[grid](
            *(packed, swizzled, out, columns),
            E8M0=block is MXFP4,
            GROUP=block.group,
            GROUPS=COLUMNS_PER_PROGRAM // block.group,
            num_warps=2,
        )
    return out
