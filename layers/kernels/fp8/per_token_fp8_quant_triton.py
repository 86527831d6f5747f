# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp8.per_token_fp8_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.triton_e4m3 import e4m3_codes, e4m3_scale
from layers.kernels.triton_rounding import magnitude_bits


@triton.jit
def _quantise(x_ptr, codes_ptr, scales_ptr, columns, x_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    codes_ptr += row * columns
    offsets = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, columns, BLOCK):
        inside = start + offsets < columns
        x = tl.load(x_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, magnitude_bits(x))
    amax = tl.max(largest, axis=0, keep_dims=True).to(tl.float32, bitcast=True)
    scale = e4m3_scale(amax)
    tl.store(scales_ptr + row + tl.zeros((1,), dtype=tl.int32), scale)
    for start in range(0, columns, BLOCK):
        inside = start + offsets < columns
        x = tl.load(x_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
        codes = e4m3_codes(tl.div_rn(x, tl.broadcast_to(scale, (BLOCK,))))
        tl.store(codes_ptr + start + offsets, codes, mask=inside)


def quantise_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes and returns what `per_token_fp8_quant.quantise_torch` does, on a GPU, M > 0."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    codes = torch.empty((rows, columns), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
    block = min(triton.next_power_of_2(columns), 4096)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[(rows,)](x, codes, scales, columns, x.stride(0), BLOCK=block, num_warps=8)
    return codes, scales
