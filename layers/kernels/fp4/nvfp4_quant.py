"""NVFP4 quantisation of activations: E2M1 codes, an E4M3 scale a block of 16, one given scale.

The rule, with g = 1 / input_scale and amax the largest magnitude of a block:

    sf = e4m3(amax / 6 · g),   code = e2m1(x · g / sf),   x ≈ code · sf · input_scale

both rounded half to even and saturating; where sf is 0 the codes are ±0. A block with a NaN or Inf
has a scale of NaN, so that the products of its row, and no others, are NaN.

The order of float32 operations is that of FlashInfer's `fp4_quantize` (csrc, TensorRT-LLM's
`cvt_warp_fp16_to_fp4`), with every reciprocal correctly rounded:

    sf = e4m3(g · (amax · (1 / 6))),   code = e2m1(x · (1 / (sf · (1 / g))))

FlashInfer's own takes the GPU's approximate reciprocals (1 ulp), so a code or scale may differ
where x lies within a few ulps of a tie. It loses NaN: its maximum drops it, and the element becomes
6 (PTX cvt.satfinite). So the layers prefer the Triton quantiser, whose output lies in the same
order, also before FlashInfer's matmul. Its kernel is compiled for sm100 and newer only: on sm90
version 0.6.13 launches an empty one and returns uninitialised memory, 0.7.4 refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.e2m1 import encode, pack
from layers.kernels.fp4.scales import E4M3_NAN, NVFP4, decode_e4m3, encode_e4m3
from layers.kernels.fp4.swizzle import swizzle

GROUP = NVFP4.group


def quantise_rows(x: torch.Tensor, input_scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule above, with scales in the order of rows.

    Args:
        x: (..., K) float; K is a multiple of 16.
        input_scale: float32, positive; of one element, or of a shape that spreads over
            (..., K / 16), such as (experts, 1, 1).

    Returns:
        packed codes (..., K / 2) uint8, E4M3 scales (..., K / 16) uint8.
    """
    blocks = x.float().unflatten(-1, (-1, GROUP))
    amax = blocks.abs().amax(dim=-1)
    one = torch.ones((), dtype=torch.float32, device=x.device)
    # On CUDA torch divides by a Python number as a product with its rounded reciprocal: here that
    # is what is wanted of 1 / 6, but a tensor makes the two devices the same.
    global_scale = one / input_scale
    scales = encode_e4m3(global_scale * (amax * (one / torch.full_like(one, 6.0))))
    scales = torch.where(torch.isfinite(amax), scales, E4M3_NAN)
    factor = one / (decode_e4m3(scales) * (one / global_scale))
    factor = torch.where(scales == 0, 0.0, factor)
    return pack(encode((blocks * factor.unsqueeze(-1)).flatten(-2))), scales


def quantise_torch(x: torch.Tensor, input_scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rule above on any device.

    Args:
        x: (..., M, K) float; K is a multiple of 16.
        input_scale: float32, positive; of one element, or (..., 1, 1).

    Returns:
        packed codes (..., M, K / 2) uint8; swizzled E4M3 scales (..., M128, C4) uint8, see
        `layers.kernels.fp4.swizzle`.
    """
    packed, scales = quantise_rows(x, input_scale)
    return packed, swizzle(scales)


def _load_flashinfer() -> Callable[..., Any]:
    from layers.kernels.fp4.nvfp4_flashinfer import quantise_flashinfer

    return quantise_flashinfer


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.fp4.fp4_quant_triton import quantise_nvfp4_triton

    return quantise_nvfp4_triton


NVFP4_QUANT = Operation(
    "nvfp4_quant",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0), k_multiple=GROUP), _load_triton),
        Backend(
            "flashinfer",
            Needs(
                package="flashinfer",
                min_arch=(10, 0),
                dtypes=(torch.float16, torch.bfloat16),
                k_multiple=GROUP,
            ),
            _load_flashinfer,
        ),
        Backend("torch", Needs(k_multiple=GROUP), lambda: quantise_torch),
    ),
)
