# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.moe.combine`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit(do_not_specialize=["choices"])
def _combine(y_ptr, weights_ptr, out_ptr, columns, choices, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    out = tl.zeros((BLOCK,), dtype=tl.float32)
    for choice in range(choices):
        pair = token * choices + choice
        y = tl.load(y_ptr + pair * columns + column, mask=inside, other=0.0)
        out += y * tl.load(weights_ptr + pair)
    tl.store(out_ptr + token * columns + column, out.to(out_ptr.dtype.element_ty), mask=inside)


def combine_triton(y: torch.Tensor, weights: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As `combine.combine_torch`, on a GPU; both contiguous."""
    tokens, choices = weights.shape
    columns = y.shape[1]
    out = torch.empty((tokens, columns), dtype=dtype, device=y.device)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(y):
        _combine[(tokens, triton.cdiv(columns, BLOCK))](
            *(y, weights, out, columns, choices), BLOCK=BLOCK
        )
    return out
