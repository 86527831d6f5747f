"""MXFP8 matmul: e4m3 codes with an E8M0 scale for each 32 of K, in a and in b.

    out = Σ_g (a_g b_g) · 2^(a_scale_g - 127) · 2^(b_scale_g - 127) + bias

summed in float32, and rounded once. A scale byte of 255 is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation

BLOCK = 32


def decode_scales(scales: torch.Tensor) -> torch.Tensor:
    """E8M0 bytes of any shape -> float32: 2^(byte - 127), NaN for 255."""
    return scales.view(torch.float8_e8m0fnu).float()


def multiply_torch(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The arithmetic above on any device; what the other backends are compared with.

    Codes are scaled first, which powers of two make exact, so one product sums all of K.

    Args:
        a: (M, K) float8_e4m3fn, row-major, K a multiple of 32.
        b: (K, N) float8_e4m3fn, column-major: the transpose of a contiguous weight (N, K).
        a_scale: (M, K / 32) uint8.
        b_scale: (N, K / 32) uint8.
        out_dtype: float16, bfloat16 or float32.
        bias: (N,) of out_dtype, or None.

    Returns:
        (M, N) of out_dtype.
    """
    out = torch.mm(_dequantise(a, a_scale), _dequantise(b.t(), b_scale).t())
    if bias is not None:
        out.add_(bias)
    return out.to(out_dtype)


def _dequantise(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    blocks = codes.float().view(*scales.shape, BLOCK)
    return (blocks * decode_scales(scales).unsqueeze(-1)).view(codes.shape)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.mxfp8_scaled_mm_triton import multiply_triton

    return multiply_triton


def _load_flashinfer() -> Callable[..., Any]:
    from flashinfer import mm_mxfp8

    def multiply_flashinfer(
        a: torch.Tensor,
        b: torch.Tensor,
        a_scale: torch.Tensor,
        b_scale: torch.Tensor,
        out_dtype: torch.dtype,
        bias: None = None,
    ) -> torch.Tensor:
        """Scales of both are flat and swizzled, rows padded to 128 and blocks to 4."""
        with torch.cuda.device_of(a):
            out: torch.Tensor = mm_mxfp8(a, b, a_scale, b_scale, out_dtype=out_dtype)
        return out

    return multiply_flashinfer


MXFP8_SCALED_MM = Operation(
    "mxfp8_scaled_mm",
    (
        Backend(
            "flashinfer",
            # `mm_mxfp8` (0.6.13, 0.7.4): written to its sources, never run. Its own check wants N
            # and K of 128 or more.
            Needs(
                package="flashinfer",
                min_arch=(10, 0),
                dtypes=(torch.float16, torch.bfloat16),
                k_multiple=BLOCK,
                n_multiple=BLOCK,
                k_min=128,
                n_min=128,
                bias=False,
            ),
            _load_flashinfer,
        ),
        Backend("triton", Needs(package="triton", min_arch=(8, 9), k_multiple=BLOCK), _load_triton),
        Backend("torch", Needs(k_multiple=BLOCK), lambda: multiply_torch),
    ),
)
