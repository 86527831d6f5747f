# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.norm.rms_norm`: one program a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["x_stride", "residual_stride"])
def _rms_norm(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    sum_ptr,
    x_stride,
    residual_stride,
    columns,
    eps,
    HAS_RESIDUAL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        residual_ptrs = residual_ptr + row * residual_stride + column
        x += tl.load(residual_ptrs, mask=inside, other=0.0).to(tl.float32)
        rounded = x.to(sum_ptr.dtype.element_ty)
        tl.store(sum_ptr + row * columns + column, rounded, mask=inside)
        x = rounded.to(tl.float32)
    mean = tl.sum(x * x, axis=0) / columns
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    y = x * (1.0 / tl.sqrt(mean + eps)) * weight
    tl.store(out_ptr + row * columns + column, y.to(out_ptr.dtype.element_ty), mask=inside)


def rms_norm_triton(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `rms_norm.rms_norm_torch`, on a GPU; the values of a row lie side by side."""
    rows, columns = x.shape
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    summed = x if residual is None else torch.empty_like(out)
    other = x if residual is None else residual
    block = triton.next_power_of_2(columns)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _rms_norm[(rows,)](
            *(x, other, weight, out, summed, x.stride(0), other.stride(0), columns, eps),
            HAS_RESIDUAL=residual is not None,
            BLOCK=block,
            num_warps=max(1, min(16, block // 512)),
        )
    return out, summed
