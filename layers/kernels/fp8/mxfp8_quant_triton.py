# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.mxfp8_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.triton_e4m3 import e4m3_codes
from layers.kernels.triton_rounding import magnitude_bits

BLOCK = 32
BLOCKS_PER_PROGRAM = 32


@triton.jit
def _quantise(
    x_ptr, codes_ptr, scales_ptr, columns, x_stride, BLOCK: tl.constexpr, BLOCKS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    column = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    bits = tl.max(magnitude_bits(x), axis=1, keep_dims=True)
    # 448 is 1.75 · 2^8: a mantissa above 1.75 takes the next power.
    stored = tl.maximum((bits >> 23) - 8 + ((bits & 0x7FFFFF) > 0x600000).to(tl.int32), 0)
    # At most 247, so the reciprocal of the scale is a normal number.
    reciprocal = ((254 - stored) << 23).to(tl.float32, bitcast=True)
    codes = e4m3_codes(x * reciprocal)
    tl.store(codes_ptr + row * columns + column, codes, mask=inside)
    stored = tl.where(bits >= 0x7F800000, 255, stored)
    blocks = columns // BLOCK
    scale_ptrs = scales_ptr + row * blocks + block[:, None]
    tl.store(scale_ptrs, stored.to(tl.uint8), mask=block[:, None] < blocks)


def quantise_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes and returns what `mxfp8_quant.quantise_torch` does, on a GPU, M > 0."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    blocks = columns // BLOCK
    codes = torch.empty((rows, columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((rows, blocks), dtype=torch.uint8, device=x.device)
    grid = (rows, triton.cdiv(blocks, BLOCKS_PER_PROGRAM))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[grid](
            *(x, codes, scales, columns, x.stride(0)), BLOCK=BLOCK, BLOCKS=BLOCKS_PER_PROGRAM
        )
    return codes, scales
