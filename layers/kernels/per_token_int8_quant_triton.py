# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.per_token_int8_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.triton_rounding import codes_of, magnitude_bits, scale_of


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
    scale = scale_of(amax)
    tl.store(scales_ptr + row + tl.zeros((1,), dtype=tl.int32), scale)
    for start in range(0, columns, BLOCK):
        inside = start + offsets < columns
        x = tl.load(x_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
        codes = codes_of(x, tl.broadcast_to(scale, (BLOCK,)))
        tl.store(codes_ptr + start + offsets, codes, mask=inside)


def quantise_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float on a GPU, M > 0 -> codes (M, K) int8 contiguous, scales (M, 1) float32."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    codes = torch.empty((rows, columns), dtype=torch.int8, device=x.device)
    scales = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
    block = min(triton.next_power_of_2(columns), 4096)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[(rows,)](x, codes, scales, columns, x.stride(0), BLOCK=block, num_warps=8)
    return codes, scales
