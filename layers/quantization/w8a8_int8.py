"""W8A8 int8, one scale a weight row (output channel), one dynamic scale a token.

Checkpoint tensors of a linear layer: `weight` int8 (N, K); `weight_scale` float32 (N, 1), with
w ≈ weight · weight_scale. Shards of a fused layer keep their scales, each in its own rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from layers.kernels.int8_scaled_mm import INT8_SCALED_MM
from layers.kernels.per_token_int8_quant import PER_TOKEN_INT8_QUANT
from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
)
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register
from layers.quantization.w8a8_linear import W8A8LinearMethod
from layers.scale_parameter import ChannelScaleParameter
from layers.sharding import LinearLayout


@register("w8a8_int8")
class W8A8Int8Config(QuantizationConfig):
    """Picks `W8A8Int8LinearMethod` for every linear layer that is not ignored."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads the keys of `layers.quantization.base.common_options`; none is required.

        Raises:
            ValueError: an activation_scheme or weight_block_size of another method.
        """
        blocks: Sequence[Any] = ()
        check_values("w8a8_int8", config, activation_scheme=("dynamic",), weight_block_size=blocks)
        return cls(backend=backend, **common_options(config))

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        return W8A8Int8LinearMethod(self.backend)


class W8A8Int8LinearMethod(W8A8LinearMethod):
    """Parameters: `weight` (N, K) int8, `weight_scale` (N, 1) float32; see the module."""

    weight_dtype = torch.int8
    quantise_operation = PER_TOKEN_INT8_QUANT
    multiply_operation = INT8_SCALED_MM
    scale_name = "weight_scale"

    def create_scale(self, layout: LinearLayout, device: torch.device) -> ChannelScaleParameter:
        """(N, 1) float32."""
        return ChannelScaleParameter(
            layout, name=self.scale_name, dtype=torch.float32, device=device
        )
