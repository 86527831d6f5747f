"""MLA's unabsorbed attention, of prompts without prefix, and its backends, the fastest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Operation
from layers.kernels.mla.problem import MLANeeds
from layers.kernels.mla.unabsorbed_torch import TorchUnabsorbed

HALVES = (torch.float16, torch.bfloat16)
ONLY = ("extend",)


def _load_flashinfer() -> Callable[..., Any]:
    from layers.kernels.mla.unabsorbed_flashinfer import FlashInferUnabsorbed

    return FlashInferUnabsorbed


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.mla.unabsorbed_triton import TritonUnabsorbed

    return TritonUnabsorbed


MLA_UNABSORBED = Operation(
    "mla_unabsorbed",
    (
        Backend(
            "triton",
            MLANeeds(
                package="triton",
                min_arch=(8, 0),
                dtypes=HALVES,
                max_head_dims=(192, 128),
                modes=ONLY,
            ),
            _load_triton,
        ),
        Backend(
            "flashinfer",
            MLANeeds(
                package="flashinfer",
                min_arch=(8, 0),
                dtypes=HALVES,
                head_dims=(192, 128),
                modes=ONLY,
            ),
            _load_flashinfer,
        ),
        Backend("torch", MLANeeds(dtypes=HALVES, modes=ONLY), lambda: TorchUnabsorbed),
    ),
)
