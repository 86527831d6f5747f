"""e4m3 matmul with a scale for each 128x128 block of the weight and each 1x128 group of a.

    out = Σ_g (a_g b_g) · a_scale_g · b_scale_g + bias

Products inside a group of 128 along K are summed, scaled and added up in float32, in the order of
K, and the result is rounded once. The last group and the last block of rows may be shorter. The
tensor cores of sm90 truncate inside a group (see `layers.kernels.fp8.fp8_scaled_mm`), and no
backend lets them do so beyond one.

`sgl_kernel` and `flashinfer` multiply the two scales with each other first, which flushes a group
to zero where their product is below 2^-126 (seen on an H200 with sgl_kernel); so they come after
`triton`, which does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.group_scales import with_whole_rows

BLOCK = 128
HALVES = (torch.float16, torch.bfloat16)


def multiply_torch(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The arithmetic above on any device; what the other backends are compared with.

    Args:
        a: (M, K) float8_e4m3fn, row-major.
        b: (K, N) float8_e4m3fn, column-major: the transpose of a contiguous weight (N, K).
        a_scale: (M, ceil(K / 128)) float32, strides (1, M rounded up to 4).
        b_scale: (ceil(N / 128), ceil(K / 128)) float32, contiguous.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    columns = b.shape[1]
    by_column = b_scale.repeat_interleave(BLOCK, dim=0)[:columns]
    out = torch.zeros((a.shape[0], columns), dtype=torch.float32, device=a.device)
    for group, start in enumerate(range(0, a.shape[1], BLOCK)):
        part = torch.mm(a[:, start : start + BLOCK].float(), b[start : start + BLOCK].float())
        part.mul_(a_scale[:, group : group + 1]).mul_(by_column[:, group])
        out.add_(part)
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def multiply_torch_scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """As `multiply_torch`, by cuBLASLt, which takes rows by fours."""
    rows = a.shape[0]
    a, a_scale = with_whole_rows(a, a_scale)
    out = torch._scaled_mm(a, b, a_scale, b_scale.t(), bias, None, out_dtype, False)
    return out if out.shape[0] == rows else out[:rows]


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.fp8_block_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_sgl_kernel() -> Callable[..., Any]:
    import sgl_kernel

    def multiply_sgl_kernel(
        a: torch.Tensor,
        b: torch.Tensor,
        a_scale: torch.Tensor,
        b_scale: torch.Tensor,
        out_dtype: torch.dtype,
        bias: None = None,
    ) -> torch.Tensor:
        rows = a.shape[0]
        # It would copy to pad to fours of rows itself.
        a, a_scale = with_whole_rows(a, a_scale)
        # It launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(a):
            out: torch.Tensor = sgl_kernel.fp8_blockwise_scaled_mm(
                a, b, a_scale, b_scale.t(), out_dtype
            )
        return out if out.shape[0] == rows else out[:rows]

    return multiply_sgl_kernel


def _load_flashinfer() -> Callable[..., Any]:
    from layers.kernels.fp8.fp8_block_scaled_mm_flashinfer import multiply_flashinfer

    return multiply_flashinfer


FP8_BLOCK_SCALED_MM = Operation(
    "fp8_block_scaled_mm",
    (
        Backend(
            "torch_scaled_mm",
            # cuBLASLt reads the weight's scales in rows of four, so K of another multiple would
            # need them padded.
            Needs(
                min_cuda=(12, 9),
                min_arch=(9, 0),
                max_arch=(9, 0),
                dtypes=HALVES,
                k_multiple=4 * BLOCK,
                n_multiple=16,
            ),
            lambda: multiply_torch_scaled_mm,
        ),
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend(
            "sgl_kernel",
            # `fp8_blockwise_scaled_mm`: in 0.4.2, gone from 0.4.8. Its sm100 kernel never ran here.
            Needs(
                package="sgl_kernel",
                max_version=(0, 4, 2),
                min_arch=(9, 0),
                max_arch=(10, 0),
                dtypes=HALVES,
                k_multiple=BLOCK,
                n_multiple=BLOCK,
                bias=False,
            ),
            _load_sgl_kernel,
        ),
        Backend(
            "flashinfer",
            # `fp8_blockscale_gemm_sm90` (DeepGEMM, compiled at run time) stores bfloat16 whatever
            # it is asked for; `gemm_fp8_nt_groupwise`, on sm100 and sm103, never ran here.
            Needs(
                package="flashinfer",
                min_arch=(9, 0),
                max_arch=(10, 3),
                dtypes=(torch.bfloat16,),
                k_multiple=BLOCK,
                n_multiple=BLOCK,
                bias=False,
            ),
            _load_flashinfer,
        ),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
