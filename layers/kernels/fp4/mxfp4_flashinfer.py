"""FlashInfer's MXFP4 matmul, for sm100 and newer.

Written from the sources of FlashInfer 0.6.13 and 0.7.4 (`flashinfer/gemm/gemm_base.py`), whose
choice for MXFP4 is cuDNN; no sm100 was at hand, so it has never run.
"""

from __future__ import annotations

import flashinfer
import torch


def matmul(
    a: torch.Tensor,
    weight: torch.Tensor,
    a_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """The `Matmul` of `layers.kernels.fp4.alpha_runs`, by FlashInfer's `mm_fp4`."""
    with torch.cuda.device_of(a):
        out: torch.Tensor = flashinfer.mm_fp4(
            *(a, weight, a_scale, weight_scale, alpha, out_dtype), block_size=32, use_nvfp4=False
        )
    return out
