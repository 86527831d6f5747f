# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.attention.write_kv`: keys and values in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.triton_e4m3 import e4m3_codes

BLOCK = 1024


@triton.jit
def _write_row(pages_ptr, rows_ptr, token, slot, stride, scale, width, BLOCK: tl.constexpr):
    """A block of one token's heads, side by side."""
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < width
    row = tl.load(rows_ptr + token * stride + at, mask=inside)
    if pages_ptr.dtype.element_ty == tl.float8e4nv:
        row = e4m3_codes(tl.div_rn(row.to(tl.float32), tl.full(row.shape, scale, tl.float32)))
    tl.store(pages_ptr + slot * width + at, row, mask=inside)


@triton.jit
def _write(
    k_pages_ptr,
    v_pages_ptr,
    slots_ptr,
    k_ptr,
    v_ptr,
    k_stride,
    v_stride,
    k_scale,
    v_scale,
    k_width,
    v_width,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)
    _write_row(k_pages_ptr, k_ptr, token, slot, k_stride, k_scale, k_width, BLOCK)
    _write_row(v_pages_ptr, v_ptr, token, slot, v_stride, v_scale, v_width, BLOCK)


def write_triton(
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    slots: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_scale: float,
    v_scale: float,
) -> None:
    """As `write_kv.write_torch`, on a GPU."""
    k, v = _heads_joined(k), _heads_joined(v)
    widths = k.shape[1] * k.shape[2], v.shape[1] * v.shape[2]
    grid = (k.shape[0], triton.cdiv(max(widths), BLOCK))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(k):
        _write[grid](
            *(k_pages, v_pages, slots, k, v, k.stride(0), v.stride(0), k_scale, v_scale, *widths),
            BLOCK=BLOCK,
        )


def _heads_joined(rows: torch.Tensor) -> torch.Tensor:
    """(T, H, D) whose heads of a token lie side by side, as in a slice of a fused projection."""
    joined = rows.stride(2) == 1 and rows.stride(1) == rows.shape[2]
    return rows if joined else rows.contiguous()
