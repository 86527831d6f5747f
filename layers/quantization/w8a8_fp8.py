"""FP8 (e4m3) with one scale a weight row (output channel) and one dynamic scale a token.

The tensors are those of `layers.quantization.fp8_linear.Fp8ChannelLinearMethod`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
)
from layers.quantization.fp8_linear import Fp8ChannelLinearMethod
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register


@register("w8a8_fp8")
class W8A8Fp8Config(QuantizationConfig):
    """Picks `Fp8ChannelLinearMethod` for every linear layer that is not ignored."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads the keys of `layers.quantization.base.common_options`; none is required.

        Raises:
            ValueError: an activation_scheme or weight_block_size of another method.
        """
        blocks: Sequence[Any] = ()
        check_values("w8a8_fp8", config, activation_scheme=("dynamic",), weight_block_size=blocks)
        return cls(backend=backend, **common_options(config))

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        return Fp8ChannelLinearMethod(self.backend)
