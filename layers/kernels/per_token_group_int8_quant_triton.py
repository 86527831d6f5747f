# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.per_token_group_int8_quant`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.triton_rounding import codes_of, magnitude_bits, scale_of

GROUP = 128
GROUPS_PER_PROGRAM = 8


@triton.jit
def _quantise(
    x_ptr, codes_ptr, scales_ptr, columns, x_stride, GROUP: tl.constexpr, GROUPS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    amax = tl.max(magnitude_bits(x), axis=1, keep_dims=True).to(tl.float32, bitcast=True)
    scale = scale_of(amax)
    codes = codes_of(x, tl.broadcast_to(scale, (GROUPS, GROUP)))
    tl.store(codes_ptr + row * columns + column, codes, mask=inside)
    groups = tl.cdiv(columns, GROUP)
    scale_ptrs = scales_ptr + row * groups + group[:, None]
    tl.store(scale_ptrs, scale, mask=group[:, None] < groups)


def quantise_triton(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float on a GPU, M > 0 -> codes (M, K) int8, scales (M, ceil(K / 128)) float32."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, columns = x.shape
    groups = triton.cdiv(columns, GROUP)
    codes = torch.empty((rows, columns), dtype=torch.int8, device=x.device)
    scales = torch.empty((rows, groups), dtype=torch.float32, device=x.device)
    grid = (rows, triton.cdiv(groups, GROUPS_PER_PROGRAM))
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        _quantise[grid](
            *(x, codes, scales, columns, x.stride(0)), GROUP=GROUP, GROUPS=GROUPS_PER_PROGRAM
        )
    return codes, scales
