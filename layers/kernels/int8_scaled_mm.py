"""int8 matmul with a scale for each row of a and each column of b (W8A8, per channel).

    out = (a b) · b_scale · a_scale + bias

The sum over K is exact in integers; scales and bias are applied in float32, in this order, and the
result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation


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
        a: (M, K) int8, row-major.
        b: (K, N) int8, column-major: the transpose of a contiguous weight (N, K).
        a_scale: (M, 1) float32.
        b_scale: (N, 1) float32.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    # float64 holds every sum of int8 products exactly up to K = 2^39.
    exact = torch.mm(a.double(), b.double())
    out = exact.float().mul_(b_scale.view(1, -1)).mul_(a_scale)
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.int8_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_sgl_kernel() -> Callable[..., Any]:
    import sgl_kernel

    def multiply_sgl_kernel(a: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
        # It launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(a):
            out: torch.Tensor = sgl_kernel.int8_scaled_mm(a, *others, **options)
        return out

    return multiply_sgl_kernel


# Up to this K a sum of int8 products fits the int32 in which the kernels accumulate: activations
# are at most 127, but a checkpoint's weight may hold -128, and 2^17 * 127 * 128 < 2^31.
INT32_SAFE_K = 2**17

INT8_SCALED_MM = Operation(
    "int8_scaled_mm",
    (
        Backend(
            "sgl_kernel",
            # sm75 would take float16 only; the kernel has no sm100 or sm120 version.
            Needs(
                package="sgl_kernel",
                min_arch=(8, 0),
                max_arch=(9, 0),
                dtypes=(torch.float16, torch.bfloat16),
                k_multiple=16,
                n_multiple=8,
                k_max=INT32_SAFE_K,
            ),
            _load_sgl_kernel,
        ),
        Backend(
            "triton",
            Needs(package="triton", min_arch=(8, 0), k_max=INT32_SAFE_K),
            _load_triton,
        ),
        Backend("torch", Needs(), lambda: multiply_torch),
    ),
)
