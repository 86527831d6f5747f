"""FlashInfer's NVFP4 quantiser and matmul, for sm100 and newer.

Written from the sources of FlashInfer 0.6.13 and 0.7.4 (`flashinfer/gemm/gemm_base.py`,
`flashinfer/quantization/fp4_quantization.py`); no sm100 was at hand, so none of it has run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flashinfer
import torch

from layers.kernels.fp4.alpha_runs import multiply_runs


def quantise_flashinfer(
    x: torch.Tensor, input_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes and returns what `nvfp4_quant.quantise_torch` does, but for the flaws named there."""
    # It takes a stride of 1 between rows for a transposed matrix, also where there is but one row.
    x = x.contiguous().flatten().view(x.shape)
    # It launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        packed, scales = flashinfer.fp4_quantize(x, input_scale, is_global_scale_inversed=True)
    return packed.view(torch.uint8), scales.view(torch.uint8)


def shuffle_for_trtllm(
    codes: torch.Tensor, scales: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (N, K / 2) and row-major scales in the trtllm kernel's order; N is a multiple of 128.

    Rows are reordered within blocks of 32 for its epilogue tile of 128 rows; scales likewise, and
    then swizzled.
    """
    tile = 128
    columns = -(-scales.shape[1] // 4) * 4
    wide = torch.nn.functional.pad(scales, (0, columns - scales.shape[1]))
    swizzled = flashinfer.shuffle_matrix_sf_a(wide, tile)
    return flashinfer.shuffle_matrix_a(codes, tile), swizzled.reshape(len(codes), columns)


def multiply_with(kernel: str) -> Callable[..., torch.Tensor]:
    """`multiply_runs` by FlashInfer's `mm_fp4` with its own backend `kernel`."""

    def matmul(
        a: torch.Tensor,
        weight: torch.Tensor,
        a_scale: torch.Tensor,
        weight_scale: torch.Tensor,
        alpha: torch.Tensor | None,
        out_dtype: torch.dtype,
    ) -> torch.Tensor:
        with torch.cuda.device_of(a):
            out: torch.Tensor = flashinfer.mm_fp4(
                *(a, weight, a_scale, weight_scale, alpha, out_dtype), backend=kernel
            )
        return out

    return partial(multiply_runs, matmul=matmul)
