"""e4m3 matmul with a scale for each row of a and each column of b, or one for each operand.

    out = (a b) · b_scale · a_scale + bias

Products of e4m3 codes are exact in float32; they are summed, scaled and added to the bias in
float32, and the result is rounded once.

How exactly they are summed is where the backends differ. The tensor cores of sm90 keep 14 bits
while they accumulate e4m3 products and cut off the rest, which makes long sums smaller.
`torch_scaled_mm` (cuBLASLt, `use_fast_accum=False`) and `triton` move the sum into float32
registers every 128 products. `sgl_kernel` and `flashinfer` do not on sm90, as their kernels ask for
fast accumulation: they run where asked for, and are chosen by themselves only where those two
cannot run. Seen on an H200: a gain of -.004 % with promotion at any K, and without of -.008 % at
K 1024 and -.015 % at K 4096 on normal data; where all products had one sign and size, sums of 4096
were exact with it and 5 % too small without. The order prefers that accuracy: `sgl_kernel` is
faster there, 94 for 105 µs at M = N = K = 4096, and 9 for 16 µs at M 1 with the quantiser and
scales by row (docs/gpu_results.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation

# These take one scale for x and one for the weight; the others want them by row and by column.
TAKE_SCALARS = frozenset({"torch_scaled_mm", "flashinfer"})
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
        a_scale: (M, 1) or (1, 1) float32.
        b_scale: (N, 1) or (1, 1) float32.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    out = torch.mm(a.float(), b.float()).mul_(b_scale.view(1, -1)).mul_(a_scale)
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
    """As `multiply_torch`, on a GPU, with both scales by row and column or both single."""
    return torch._scaled_mm(a, b, a_scale, b_scale.t(), bias, None, out_dtype, False)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.fp8_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_sgl_kernel() -> Callable[..., Any]:
    import sgl_kernel

    def multiply_sgl_kernel(a: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
        # It launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(a):
            out: torch.Tensor = sgl_kernel.fp8_scaled_mm(a, *others, **options)
        return out

    return multiply_sgl_kernel


def _load_flashinfer() -> Callable[..., Any]:
    from flashinfer import bmm_fp8

    def multiply_flashinfer(
        a: torch.Tensor,
        b: torch.Tensor,
        a_scale: torch.Tensor,
        b_scale: torch.Tensor,
        out_dtype: torch.dtype,
        bias: None = None,
    ) -> torch.Tensor:
        with torch.cuda.device_of(a):
            out: torch.Tensor = bmm_fp8(a[None], b[None], a_scale, b_scale, out_dtype)
        return out[0]

    return multiply_flashinfer


FP8_SCALED_MM = Operation(
    "fp8_scaled_mm",
    (
        Backend(
            "torch_scaled_mm",
            # On sm89 and sm100 scales by row take torch's CUTLASS kernels, never run here.
            Needs(min_arch=(8, 9), dtypes=HALVES, k_multiple=16, n_multiple=16),
            lambda: multiply_torch_scaled_mm,
        ),
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend(
            "sgl_kernel",
            # `fp8_scaled_mm`, the same in 0.4.2 and 0.4.8; rows of 16 bytes on both sides.
            Needs(
                package="sgl_kernel", min_arch=(8, 9), dtypes=HALVES, k_multiple=16, n_multiple=8
            ),
            _load_sgl_kernel,
        ),
        Backend(
            "flashinfer",
            # `bmm_fp8` (0.6.13, 0.7.4), which is cuBLASLt compiled at run time by nvcc.
            Needs(
                package="flashinfer",
                min_arch=(8, 9),
                dtypes=HALVES,
                k_multiple=16,
                n_multiple=16,
                bias=False,
                scalar_scales=True,
            ),
            _load_flashinfer,
        ),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
