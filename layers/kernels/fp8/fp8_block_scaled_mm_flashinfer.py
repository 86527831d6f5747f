"""FlashInfer's backends of `layers.kernels.fp8.fp8_block_scaled_mm`, one for each architecture."""

from __future__ import annotations

import torch
from flashinfer.gemm import fp8_blockscale_gemm_sm90, gemm_fp8_nt_groupwise

from layers.kernels.capability import device_arch
from layers.kernels.fp8.group_scales import group_major, with_whole_rows


def multiply_flashinfer(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
    bias: None = None,
) -> torch.Tensor:
    """As `fp8_block_scaled_mm.multiply_torch`, on sm90 or newer; bfloat16, no bias.

    FlashInfer would quantise x itself, but drops a NaN and multiplies by a rounded reciprocal, so
    it is given codes and scales.
    """
    with torch.cuda.device_of(a):
        if device_arch(a.device) != (9, 0):
            return _multiply_sm100(a, b, a_scale, b_scale, out_dtype)
        scales = group_major(a_scale)
        out: torch.Tensor = fp8_blockscale_gemm_sm90(a, b.t(), scales, b_scale, out_dtype=out_dtype)
    return out


def _multiply_sm100(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """`gemm_fp8_nt_groupwise`, which wants M a multiple of 4. Written to its sources, never run."""
    rows = a.shape[0]
    a, a_scale = with_whole_rows(a, a_scale)
    out: torch.Tensor = gemm_fp8_nt_groupwise(
        *(a, b.t(), a_scale.t(), b_scale.t().contiguous()),
        scale_major_mode="MN",
        out_dtype=out_dtype,
    )
    return out[:rows]
