# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backends of `layers.kernels.moe.activation`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _activate(gate_up_ptr, h_ptr, columns, IS_OAI: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    gate_ptrs = gate_up_ptr + row * 2 * columns + column
    gate = tl.load(gate_ptrs, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_ptrs + columns, mask=inside, other=0.0).to(tl.float32)
    if IS_OAI:
        # Not tl.minimum, which drops a NaN.
        gate = tl.where(gate > 7.0, 7.0, gate)
        up = tl.where(up > 7.0, 7.0, tl.where(up < -7.0, -7.0, up)) + 1.0
        h = up * (gate * (1.0 / (1.0 + tl.exp(-1.702 * gate))))
    else:
        h = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(h_ptr + row * columns + column, h.to(h_ptr.dtype.element_ty), mask=inside)


def _launch(gate_up: torch.Tensor, dtype: torch.dtype, is_oai: bool) -> torch.Tensor:
    rows, columns = gate_up.shape[0], gate_up.shape[1] // 2
    h = torch.empty((rows, columns), dtype=dtype, device=gate_up.device)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(gate_up):
        _activate[(rows, triton.cdiv(columns, BLOCK))](
            *(gate_up, h, columns), IS_OAI=is_oai, BLOCK=BLOCK
        )
    return h


def silu_triton(gate_up: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As `activation.silu_torch`, on a GPU; gate_up contiguous."""
    return _launch(gate_up, dtype, is_oai=False)


def swiglu_oai_triton(gate_up: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As `activation.swiglu_oai_torch`, on a GPU; gate_up contiguous."""
    return _launch(gate_up, dtype, is_oai=True)
