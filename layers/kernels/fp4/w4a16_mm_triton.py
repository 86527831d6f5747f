# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.fp4.w4a16_mm`.

A program computes a tile of the transposed output, weight times xᵀ: the decoded weight is then the
tensor cores' first operand, which they take from registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl

from layers.kernels.fp4.few_rows_triton import multiply_few_rows
from layers.kernels.fp4.fp4_triton import decode_pairs, decode_scale, swizzled_offset
from layers.kernels.fp4.scales import MXFP4, BlockFormat
from layers.kernels.triton_matmul import store_tile, tile_of


@dataclass(frozen=True)
class Tiles:
    """Rows, columns and K of a step of an output tile, and how a GPU works on it.

    splits: parts of K that are summed apart; 0 for the kernel that has no such parts.
    """

    rows: int
    columns: int
    k: int
    warps: int
    stages: int
    splits: int = 0


def choose_tiles(m: int, operand: tl.dtype, shared_memory: int) -> Tiles:
    """The fastest of those tried on an H200 with N = K = 4096.

    Few rows need narrow tiles, so that enough programs share the reading of the weight; many rows
    tall ones, so that a decoded weight serves them all.

    Args:
        m: rows of x.
        operand: what the tensor cores multiply; float32 needs shorter steps of K to fit.
        shared_memory: bytes that a program may have. All but the tallest tiles take at most 96 KiB.
    """
    if operand is tl.float32:
        rows = 16 if m <= 16 else 64
        return Tiles(rows, columns=64, k=32, warps=4, stages=2)
    if m <= 16:
        return Tiles(rows=16, columns=16, k=128, warps=4, stages=3, splits=4)
    if m <= 256:
        return Tiles(rows=64, columns=64, k=128, warps=4, stages=3)
    if m < 1024 or shared_memory < 110_000:
        return Tiles(rows=128, columns=128, k=64, warps=4, stages=3)
    return Tiles(rows=256, columns=128, k=64, warps=8, stages=3)


@cache
def _shared_memory(device: torch.device) -> int:
    properties = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)


@triton.jit
def decode_tile(packed, scale, GROUP: tl.constexpr, E8M0: tl.constexpr, OPERAND: tl.constexpr):
    """Bytes (N, K / 2) and scales (N, K / GROUP) -> (N, K) OPERAND, exact."""
    values = decode_pairs(packed, OPERAND)
    factor = decode_scale(scale, E8M0).to(OPERAND)
    blocks = tl.reshape(values, (factor.shape[0], factor.shape[1], GROUP)) * factor[:, :, None]
    return tl.reshape(blocks, values.shape)


@triton.jit(do_not_specialize=["m"])
def _multiply(
    x_ptr,
    weight_ptr,
    scale_ptr,
    alpha_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    x_stride,
    HAS_ALPHA: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    E8M0: tl.constexpr,
    GROUP: tl.constexpr,
    OPERAND: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile_row, tile_column = tile_of(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, 8)
    rows = (tile_row * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_column * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    row_inside = rows[None, :] < m
    column_inside = columns[:, None] < n
    steps = tl.arange(0, BLOCK_K)
    halves = tl.arange(0, BLOCK_K // 2)
    groups = tl.arange(0, BLOCK_K // GROUP)
    x_ptrs = x_ptr + rows[None, :] * x_stride + steps[:, None]
    weight_ptrs = weight_ptr + columns[:, None] * (k // 2) + halves[None, :]
    out = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = k - start
        inside = column_inside & (halves[None, :] < left // 2)
        packed = tl.load(weight_ptrs + start // 2, mask=inside, other=0)
        group = start // GROUP + groups[None, :]
        # Scales need no mask along N: they are padded to 128 rows, and BLOCK_N divides that.
        scale_ptrs = scale_ptr + swizzled_offset(columns[:, None], group, k // GROUP)
        scale = tl.load(scale_ptrs, mask=group < k // GROUP, other=0)
        x = tl.load(x_ptrs + start, mask=row_inside & (steps[:, None] < left), other=0.0)
        weight = decode_tile(packed, scale, GROUP, E8M0, OPERAND)
        out = tl.dot(weight, x.to(OPERAND), acc=out, input_precision="ieee")
    if HAS_ALPHA:
        out *= tl.load(alpha_ptr + columns[:, None], mask=column_inside, other=0.0)
    store_tile(tl.trans(out), bias_ptr, out_ptr, rows, columns, m, n, HAS_BIAS)


_OPERANDS = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


def operand_of(dtype: torch.dtype, block: BlockFormat) -> tl.dtype:
    """What x of `dtype` and a weight are multiplied in."""
    # float16 holds no MXFP4 weight: scales reach from 2^-127 to 2^127.
    is_held = dtype is not torch.float16 or block is not MXFP4
    return _OPERANDS[dtype] if is_held else tl.float32


def multiply_triton(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
    *,
    block: BlockFormat,
) -> torch.Tensor:
    """Takes and returns what `w4a16_mm.multiply_torch` does, on a GPU.

    Checks nothing, as it runs in every forward: M > 0, all on one GPU, everything but x contiguous.
    """
    if x.stride(1) != 1:
        x = x.contiguous()
    m, k = x.shape
    n = weight.shape[0]
    out = torch.empty((m, n), dtype=out_dtype, device=x.device)
    operand = operand_of(x.dtype, block)
    tiles = choose_tiles(m, operand, _shared_memory(x.device))
    kernel, options = _multiply, {}
    if tiles.splits:
        kernel, options = multiply_few_rows, {"SPLITS": tiles.splits}
    grid = (triton.cdiv(m, tiles.rows) * triton.cdiv(n, tiles.columns),)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        kernel[grid](
            *(x, weight, weight_scale, x if alpha is None else alpha, x if bias is None else bias),
            *(out, m, n, k, x.stride(0)),
            HAS_ALPHA=alpha is not None,
            HAS_BIAS=bias is not None,
            E8M0=block is MXFP4,
            GROUP=block.group,
            OPERAND=operand,
            **options,
            BLOCK_M=tiles.rows,
            BLOCK_N=tiles.columns,
            BLOCK_K=tiles.k,
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
    return out
