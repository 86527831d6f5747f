"""MXFP4 quantisation of activations: E2M1 codes, an E8M0 scale a block of 32.

The rule, with amax the largest magnitude of a block:

    s = 2^(⌊log2 amax⌋ - 2),   code = e2m1(x / s),   x ≈ code · s

The scale is rounded down, as OCP MX 1.0, section 6.3, has it, so values between 6 · s and 8 · s
saturate; codes are rounded half to even. s is at least 2^-127, and a block of zeros has codes ±0. A
block with a NaN or Inf has a scale of NaN, so that the products of its row, and no others, are NaN.

FlashInfer's `mxfp4_quantize` is no backend here: it rounds the scale up, to 2^⌈log2(amax / 6)⌉, and
drops NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.e2m1 import encode, pack
from layers.kernels.fp4.scales import MXFP4, decode_e8m0, encode_e8m0_floor
from layers.kernels.fp4.swizzle import swizzle

GROUP = MXFP4.group
# Of 6 and 4, the largest values of E2M1.
LARGEST_EXPONENT = 2


def quantise_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule above, with scales in the order of rows.

    Args:
        x: (..., K) float; K is a multiple of 32.

    Returns:
        packed codes (..., K / 2) uint8, E8M0 scales (..., K / 32) uint8.
    """
    blocks = x.float().unflatten(-1, (-1, GROUP))
    scales = encode_e8m0_floor(blocks.abs().amax(dim=-1), LARGEST_EXPONENT)
    return pack(encode((blocks / decode_e8m0(scales).unsqueeze(-1)).flatten(-2))), scales


def quantise_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule above on any device.

    Args:
        x: (..., M, K) float; K is a multiple of 32.

    Returns:
        packed codes (..., M, K / 2) uint8; swizzled E8M0 scales (..., M128, C4) uint8, see
        `layers.kernels.fp4.swizzle`.
    """
    packed, scales = quantise_rows(x)
    return packed, swizzle(scales)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp4.fp4_quant_triton import quantise_mxfp4_triton

    return quantise_mxfp4_triton


MXFP4_QUANT = Operation(
    "mxfp4_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0), k_multiple=GROUP), _load_triton),
        Backend("torch", Needs(k_multiple=GROUP), lambda: quantise_torch),
    ),
)
