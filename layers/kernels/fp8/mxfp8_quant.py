"""MXFP8 quantisation of activations: e4m3 codes, and an E8M0 scale for each 32 values of a token.

The rule: s = 2^ceil(log2(amax / 448)), the smallest power of two under which nothing saturates, at
least 2^-127; codes = e4m3(x / s), half to even, so that x ≈ codes · s. The power is read off the
bits of amax, so it is exact. A block of zeros has the byte 0, s = 2^-127, and codes 0. A NaN or Inf
makes its block's byte 255, which is NaN, so that the row's products, and no others, are NaN.

FlashInfer's `mxfp8_quantize` (sm100 kernels, never run here) has the same rule; it forms amax / 448
with an approximate reciprocal, so it may take the next power where amax is exactly 448 times one,
and its maximum may drop a NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.e4m3 import encode

BLOCK = 32
NAN_SCALE = 255


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (M, K) float, K a multiple of 32 -> codes (M, K) float8_e4m3fn, scales (M, K / 32) uint8.

    Both contiguous.
    """
    rows, columns = x.shape
    values = x.float().view(rows, columns // BLOCK, BLOCK)
    amax = values.abs().amax(dim=-1)
    mantissa, exponent = torch.frexp(amax)
    # 448 is 0.875 · 2^9, and the mantissa lies between 0.5 and 1.
    power = exponent - 9 + (mantissa > 0.875).int()
    power = torch.where(amax == 0, -127, power).clamp_(-127, 127)
    scale = torch.ldexp(torch.ones_like(amax), power)
    codes = encode(values / scale.unsqueeze(-1)).view(rows, columns)
    stored = torch.where(amax.isfinite(), power + 127, NAN_SCALE)
    return codes, stored.to(torch.uint8)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp8.mxfp8_quant_triton import quantise_triton

    return quantise_triton


def _load_flashinfer() -> Callable[..., Any]:
    from flashinfer import mxfp8_quantize

    def quantise_flashinfer(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Its scales are swizzled, as mm_mxfp8 reads them; it takes rows for granted.
        codes, scales = mxfp8_quantize(x.contiguous(), True)
        return codes, scales

    return quantise_flashinfer


MXFP8_QUANT = Operation(
    "mxfp8_quant",
    (
        Backend(
            "triton",
            Needs(package="triton", min_arch=(8, 9), k_multiple=BLOCK),
            _load_triton,
        ),
        # Its scales lie as FlashInfer's matmul reads them, so it serves that one only.
        Backend(
            "flashinfer",
            Needs(
                package="flashinfer",
                min_arch=(10, 0),
                dtypes=(torch.float16, torch.bfloat16),
                k_multiple=BLOCK,
            ),
            _load_flashinfer,
        ),
        Backend("torch", Needs(k_multiple=BLOCK), lambda: quantise_torch),
    ),
)
