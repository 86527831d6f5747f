# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp4.nvfp4_quant` and `layers.kernels.fp4.mxfp4_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp4.fp4_triton import decode_scale, encode_e2m1, encode_e4m3, swizzled_offset
from layers.kernels.fp4.scales import MXFP4, NVFP4, BlockFormat
from layers.kernels.fp4.swizzle import padded
from layers.kernels.triton_rounding import magnitude_bits

COLUMNS_PER_PROGRAM = 512


@triton.jit
def _reciprocal(x):
    return tl.div_rn(tl.full(x.shape, 1.0, tl.float32), x)


@triton.jit
def _nvfp4_scale(amax_bits, input_scale):
    """Scale bytes and the factor of x, in the order of `nvfp4_quant.quantise_rows`."""
    amax = amax_bits.to(tl.float32, bitcast=True)
    global_scale = _reciprocal(input_scale + tl.zeros(amax.shape, tl.float32))
    scale = encode_e4m3(global_scale * (amax * 0.16666667163372040))
    scale = tl.where(amax_bits >= 0x7F800000, 0x7F, scale).to(tl.uint8)
    factor = _reciprocal(decode_scale(scale, False) * _reciprocal(global_scale))
    return scale, tl.where(scale == 0, 0.0, factor)


@triton.jit
def _mxfp4_scale(amax_bits):
    """Scale bytes 2^(⌊log2 amax⌋ - 2) and their reciprocal, a power of two as well."""
    exponent = amax_bits >> 23
    scale = tl.where(exponent == 255, 255, tl.maximum(exponent - 2, 0))
    inverse = tl.where(scale == 255, 0x7FC00000, (254 - scale) << 23)
    return scale.to(tl.uint8), inverse.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _quantise(
    x_ptr,
    input_scale_ptr,
    packed_ptr,
    scales_ptr,
    rows,
    columns,
    x_stride,
    E8M0: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    pair = tl.arange(0, GROUP // 2)
    groups = columns // GROUP
    # Rows and groups beyond the end are padding: their scales, zeros, are written as well.
    inside = (group < groups) & (row < rows)
    column = group[:, None, None] * GROUP + pair[None, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    x = tl.load(x_ptr + row * x_stride + column, mask=inside[:, None, None], other=0.0)
    even, odd = tl.split(x.to(tl.float32))
    amax_bits = tl.max(tl.maximum(magnitude_bits(even), magnitude_bits(odd)), axis=1)
    if E8M0:
        scale, factor = _mxfp4_scale(amax_bits)
    else:
        scale, factor = _nvfp4_scale(amax_bits, tl.load(input_scale_ptr))
    low = encode_e2m1(even * factor[:, None])
    high = encode_e2m1(odd * factor[:, None])
    packed_ptrs = packed_ptr + (row * groups + group[:, None]) * (GROUP // 2) + pair[None, :]
    tl.store(packed_ptrs, low | (high << 4), mask=inside[:, None])
    scale = tl.where(inside, scale, 0).to(tl.uint8)
    in_tile = group < tl.cdiv(groups, 4) * 4
    tl.store(scales_ptr + swizzled_offset(row, group, groups), scale, mask=in_tile)


def _launch(
    x: torch.Tensor, input_scale: torch.Tensor, block: BlockFormat
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    shape = padded(rows, columns // block.group)
    packed = torch.empty((rows, columns // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty(shape, dtype=torch.uint8, device=x.device)
    groups = COLUMNS_PER_PROGRAM // block.group
    grid = (shape[0], triton.cdiv(shape[1], groups))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[grid](
            *(x, input_scale, packed, scales, rows, columns, x.stride(0)),
            E8M0=block is MXFP4,
            GROUP=block.group,
            GROUPS=groups,
            num_warps=2,
        )
    return packed, scales


def quantise_nvfp4_triton(
    x: torch.Tensor, input_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) on a GPU and one input_scale: as `nvfp4_quant.quantise_torch`, to the bit.

    The codes of a block with a NaN or Inf mean nothing and may differ.
    """
    return _launch(x, input_scale, NVFP4)


def quantise_mxfp4_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) on a GPU: as `mxfp4_quant.quantise_torch`; for blocks with NaN or Inf, see above."""
    return _launch(x, x, MXFP4)
