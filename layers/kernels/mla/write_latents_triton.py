# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.mla.write_latents`: both parts of a latent in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.fp8.triton_e4m3 import e4m3_codes


@triton.jit
def _write_part(pages_ptr, part_ptr, scale, dims, WIDTH: tl.constexpr):
    inside = dims < WIDTH
    part = tl.load(part_ptr + dims, mask=inside)
    if pages_ptr.dtype.element_ty == tl.float8e4nv:
        part = e4m3_codes(tl.div_rn(part.to(tl.float32), tl.full(part.shape, scale, tl.float32)))
    tl.store(pages_ptr + dims, part, mask=inside)


@triton.jit
def _write(
    pages_ptr,
    slots_ptr,
    kv_c_ptr,
    k_pe_ptr,
    kv_c_stride,
    k_pe_stride,
    scale,
    RANK: tl.constexpr,
    ROPE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    row = pages_ptr + tl.load(slots_ptr + token) * (RANK + ROPE)
    _write_part(row, kv_c_ptr + token * kv_c_stride, scale, tl.arange(0, BLOCK_R), RANK)
    _write_part(row + RANK, k_pe_ptr + token * k_pe_stride, scale, tl.arange(0, BLOCK_P), ROPE)


def write_triton(
    pages: torch.Tensor,
    slots: torch.Tensor,
    kv_c: torch.Tensor,
    k_pe: torch.Tensor,
    scale: float,
) -> None:
    """As `write_latents.write_torch`, on a GPU."""
    kv_c, k_pe = (x if x.stride(1) == 1 else x.contiguous() for x in (kv_c, k_pe))
    rank, rope = kv_c.shape[1], k_pe.shape[1]
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(kv_c):
        _write[(len(slots),)](
            *(pages, slots, kv_c, k_pe, kv_c.stride(0), k_pe.stride(0), scale),
            RANK=rank,
            ROPE=rope,
            BLOCK_R=triton.next_power_of_2(rank),
            BLOCK_P=triton.next_power_of_2(rope),
            num_warps=2,
        )
