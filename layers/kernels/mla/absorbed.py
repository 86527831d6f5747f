"""MLA's absorbed attention, to latents in a paged cache, and its backends, the fastest first."""

from __future__ import annotations

import torch

from layers.kernels.capability import Backend, Operation
from layers.kernels.mla.absorbed_torch import TorchAbsorbed
from layers.kernels.mla.problem import MLANeeds

HALVES = (torch.float16, torch.bfloat16)

MLA_ABSORBED = Operation(
    "mla_absorbed",
    (Backend("torch", MLANeeds(dtypes=HALVES, fp8=True), lambda: TorchAbsorbed),),
)
