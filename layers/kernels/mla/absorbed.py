"""MLA's absorbed attention, to latents in a paged cache, and its backends, the fastest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Operation
from layers.kernels.mla.absorbed_torch import TorchAbsorbed
from layers.kernels.mla.problem import MLANeeds

HALVES = (torch.float16, torch.bfloat16)
DEEPSEEK = (512, 64)


def _load_flashmla() -> Callable[..., Any]:
    from layers.kernels.mla.absorbed_flashmla import FlashMLAAbsorbed

    return FlashMLAAbsorbed


def _load_trtllm() -> Callable[..., Any]:
    from layers.kernels.mla.absorbed_sm100 import TrtllmAbsorbed

    return TrtllmAbsorbed


def _load_cutlass() -> Callable[..., Any]:
    from layers.kernels.mla.absorbed_sm100 import CutlassAbsorbed

    return CutlassAbsorbed


def _load_flashinfer() -> Callable[..., Any]:
    from layers.kernels.mla.absorbed_flashinfer import FlashInferAbsorbed

    return FlashInferAbsorbed


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.mla.absorbed_triton import TritonAbsorbed

    return TritonAbsorbed


MLA_ABSORBED = Operation(
    "mla_absorbed",
    (
        Backend(
            "flashmla",
            MLANeeds(
                package="sgl_kernel",
                extension="flashmla_ops",
                min_arch=(9, 0),
                max_arch=(9, 0),
                dtypes=HALVES,
                latent=DEEPSEEK,
                page_sizes=(64,),
                modes=("decode",),
            ),
            _load_flashmla,
        ),
        Backend(
            "flashinfer_trtllm",
            MLANeeds(
                package="flashinfer",
                min_arch=(10, 0),
                max_arch=(10, 3),
                dtypes=(torch.bfloat16,),
                latent=DEEPSEEK,
                page_sizes=(32, 64),
                modes=("decode",),
            ),
            _load_trtllm,
        ),
        Backend(
            "sgl_kernel_cutlass",
            # `cutlass_mla_decode`, which pads heads to 128.
            MLANeeds(
                package="sgl_kernel",
                min_arch=(10, 0),
                max_arch=(10, 3),
                dtypes=HALVES,
                latent=DEEPSEEK,
                max_heads=128,
                page_sizes=(1, 16, 32, 64),
                modes=("decode",),
            ),
            _load_cutlass,
        ),
        Backend(
            "flashinfer",
            # Its planner counts at most 16,384 tiles of 64 rows and their splits, unchecked. Its
            # causal loop stops a key early in tiles that end within a token's heads, so heads have
            # to divide a tile's rows (0.7.4 refuses the batches concerned, 0.6.13 does not).
            MLANeeds(
                package="flashinfer",
                min_arch=(8, 0),
                dtypes=HALVES,
                latent=DEEPSEEK,
                extend_heads=(1, 2, 4, 8, 16, 32, 64, 128),
                max_row_tiles=16_000,
                modes=("extend", "decode"),
            ),
            _load_flashinfer,
        ),
        Backend(
            "triton",
            MLANeeds(
                package="triton",
                min_arch=(8, 0),
                dtypes=HALVES,
                max_latent=(512, 64),
                fp8=True,
                fp8_arch=(8, 9),
            ),
            _load_triton,
        ),
        Backend("torch", MLANeeds(dtypes=HALVES, fp8=True), lambda: TorchAbsorbed),
    ),
)
