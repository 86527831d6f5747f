"""Weights in the layer's own float dtype, multiplied by torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from layers.parameter import FLOAT_DTYPES, ModelWeightParameter
from layers.quantization.base import LinearMethodBase
from layers.sharding import LinearLayout


class UnquantizedLinearMethod(LinearMethodBase):
    """Checkpoint tensor: `weight` (N, K), float32, float16 or bfloat16, cast to params_dtype."""

    _weight: torch.Tensor

    def create_weights(
        self,
        layer: torch.nn.Module,
        layout: LinearLayout,
        params_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Registers `weight` (N, K) of params_dtype."""
        weight = ModelWeightParameter(
            layout, name="weight", dtype=params_dtype, device=device, accepted_dtypes=FLOAT_DTYPES
        )
        layer.register_parameter("weight", weight)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Copies nothing: torch reads the checkpoint's layout."""
        self._weight = layer.get_parameter("weight").data

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x (M, K), bias (N,) -> (M, N), all of params_dtype."""
        out: torch.Tensor = F.linear(x, self._weight, bias)
        return out
