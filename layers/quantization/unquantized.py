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
        """Copies nothing: torch reads the checkpoint's layout.

        On CUDA it turns off, for the process, cuBLAS's reductions in the output's own precision:
        with unaligned sizes cuBLAS splits K and adds the parts in bfloat16, which rounds more than
        once (seen on an H200 at M 9, N 201, K 100: 705 of 1,809 outputs off, by up to 1%).
        """
        if layer.get_parameter("weight").is_cuda:
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        self._weight = layer.get_parameter("weight").data

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x (M, K), bias (N,) -> (M, N), all of params_dtype."""
        out: torch.Tensor = F.linear(x, self._weight, bias)
        return out

    def dequantised_weight(self, layer: torch.nn.Module) -> torch.Tensor:
        """The weight itself, (N, K) float32."""
        return self._weight.to(torch.float32, copy=True)
