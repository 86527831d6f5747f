"""MLA's unabsorbed attention, of prompts without prefix, and its backends, the fastest first."""

from __future__ import annotations

import torch

from layers.kernels.capability import Backend, Operation
from layers.kernels.mla.problem import MLANeeds
from layers.kernels.mla.unabsorbed_torch import TorchUnabsorbed

HALVES = (torch.float16, torch.bfloat16)
ONLY = ("extend",)

MLA_UNABSORBED = Operation(
    "mla_unabsorbed",
    (Backend("torch", MLANeeds(dtypes=HALVES, modes=ONLY), lambda: TorchUnabsorbed),),
)
