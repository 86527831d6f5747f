"""Expert weights in the layer's own float dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from layers.kernels.moe.grouped_mm import GROUPED_MM
from layers.moe.parameter import ExpertParameter
from layers.moe.quantization.staged import StagedMoEMethod
from layers.parameter import FLOAT_DTYPES

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


class UnquantizedMoEMethod(StagedMoEMethod):
    """Parameters: `w13_weight` (E, 2I, H) and `w2_weight` (E, H, I), cast to params_dtype."""

    multiply_operation = GROUPED_MM

    def create_weights(
        self, layer: FusedMoE, params_dtype: torch.dtype, device: torch.device
    ) -> None:
        """Registers the two weights."""
        for name in ("w13_weight", "w2_weight"):
            weight = ExpertParameter(
                layer.experts,
                name,
                dtype=params_dtype,
                device=device,
                accepted_dtypes=FLOAT_DTYPES,
            )
            layer.register_parameter(name, weight)
