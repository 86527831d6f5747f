"""FP8 (e4m3) experts: a weight scale a tensor, a row, or a block of 128x128.

The config picks as for linear layers (`layers.quantization.fp8`): `fp8` with or without
`weight_block_size`, `modelopt_fp8`, and `w8a8_fp8` for a scale a row. Everywhere
w ≈ weight · scale.

- tensor: `w13_weight_scale` (E, 2), for w1 and w3, and `w2_weight_scale` (E, 1); with static
  activations `w13_input_scale` and `w2_input_scale`, likewise;
- row: `w13_weight_scale` (E, 2I, 1), `w2_weight_scale` (E, H, 1);
- block: `w13_weight_scale_inv` (E, ceil(2I / 128), ceil(H / 128)), `w2_weight_scale_inv`
  (E, ceil(H / 128), ceil(I / 128)); a rank's part of I is a multiple of 128.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

import layers.quantization.modelopt_fp8
import layers.quantization.w8a8_fp8  # noqa: F401 the configs register themselves
from layers.copyable import replace_parameter
from layers.kernels.capability import Operation
from layers.kernels.fp8.group_scales import GROUP
from layers.kernels.fp8.per_token_fp8_quant import PER_TOKEN_FP8_QUANT
from layers.kernels.fp8.per_token_group_fp8_quant import PER_TOKEN_GROUP_FP8_QUANT
from layers.kernels.fp8.static_fp8_quant import STATIC_FP8_QUANT
from layers.kernels.moe.grouped_fp8 import GROUPED_FP8_BLOCK_SCALED_MM, GROUPED_FP8_SCALED_MM
from layers.kernels.moe.routing import Routing
from layers.kernels.moe.static_fp8_quant_by_expert import STATIC_FP8_QUANT_BY_EXPERT
from layers.moe.quantization.base import MoEMethodBase
from layers.moe.quantization.registry import register_moe
from layers.moe.quantization.w8a8 import W8A8MoEMethod
from layers.quantization.base import QuantizationConfig
from layers.quantization.fp8 import Fp8Config
from layers.scale_parameter import (
    BlockScaleParameter,
    ChannelScaleParameter,
    PerTensorScaleParameter,
)

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


@register_moe("fp8", "modelopt_fp8")
class Fp8TensorMoEMethod(W8A8MoEMethod):
    """A scale for each checkpoint tensor; x and h dynamic by token and pair, or static.

    Post-load gives each weight row the scale of its tensor, (E, 2I, 1) and (E, H, 1): unequal
    scales of gate, up and experts stay exact, and no weight is quantised again.

    With static activations x is quantised once for all experts, so by the largest of all
    `w13_input_scale`s, also of other ranks' experts: a smaller one would saturate what another
    covers. h is quantised by the `w2_input_scale` of its own expert.
    """

    weight_dtype = torch.float8_e4m3fn
    quantise_operation = PER_TOKEN_FP8_QUANT
    multiply_operation = GROUPED_FP8_SCALED_MM
    scale_name = "weight_scale"
    scale_kind = PerTensorScaleParameter
    scale_units = {}  # noqa: RUF012 of the class, never changed

    def __init__(self, backend: str | None = None, *, static: bool = False) -> None:
        super().__init__(backend)
        self.static = static

    @classmethod
    def from_config(cls, config: QuantizationConfig, backend: str | None) -> MoEMethodBase:
        """The method by tensors or by blocks, as the config says.

        Raises:
            TypeError: another config than `Fp8Config`.
        """
        if not isinstance(config, Fp8Config):
            raise TypeError(
                f"the MoE method of fp8 takes an Fp8Config, not {type(config).__name__}"
            )
        return (
            Fp8BlockMoEMethod(backend) if config.by_blocks else cls(backend, static=config.static)
        )

    def create_weights(
        self, layer: FusedMoE, params_dtype: torch.dtype, device: torch.device
    ) -> None:
        """Registers weights, their scales and, if static, the activations' scales."""
        super().create_weights(layer, params_dtype, device)
        if self.static:
            kind = PerTensorScaleParameter
            for name, is_shared in (("w13_input_scale", True), ("w2_input_scale", False)):
                self._add(
                    layer, name, device, kind=kind, dtype=torch.float32, all_experts=is_shared
                )

    def fold(self, layer: FusedMoE) -> None:
        """Gives each weight row its scale, and x the largest of its scales, (1, 1).

        Raises:
            ValueError: a static scale that is not above 0.
        """
        if self.static:
            for name in ("w13_input_scale", "w2_input_scale"):
                _check_positive(layer, name)
        for name in ("w13_weight", "w2_weight"):
            scales = layer.get_parameter(f"{name}_scale").data
            rows = layer.get_parameter(name).shape[1] // scales.shape[1]
            by_row = scales.repeat_interleave(rows, dim=1).unsqueeze(-1)
            replace_parameter(layer, f"{name}_scale", by_row)
        if self.static:
            largest = layer.get_parameter("w13_input_scale").data.amax().reshape(1, 1)
            replace_parameter(layer, "w13_input_scale", largest)

    def set_quantisers(
        self, layer: FusedMoE, companion: Callable[[Operation], Callable[..., Any]]
    ) -> None:
        """By token and pair, or by the static scales."""
        if not self.static:
            super().set_quantisers(layer, companion)
            return
        largest = layer.get_parameter("w13_input_scale").data
        by_expert = layer.get_parameter("w2_input_scale").data
        self.quantise_input = partial(companion(STATIC_FP8_QUANT), scale=largest, per_row=True)
        self.quantise_hidden = partial(companion(STATIC_FP8_QUANT_BY_EXPERT), scale=by_expert)

    def _quantise_hidden(
        self, h: torch.Tensor, routing: Routing
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self.static and self.quantise_hidden is not None:
            return self.quantise_hidden(h, routing)
        return super()._quantise_hidden(h, routing)


@register_moe("w8a8_fp8")
class Fp8ChannelMoEMethod(W8A8MoEMethod):
    """A scale for each weight row; x and h are quantised by token and pair."""

    weight_dtype = torch.float8_e4m3fn
    quantise_operation = PER_TOKEN_FP8_QUANT
    multiply_operation = GROUPED_FP8_SCALED_MM
    scale_name = "weight_scale"
    scale_kind = ChannelScaleParameter
    scale_units = {}  # noqa: RUF012


class Fp8BlockMoEMethod(W8A8MoEMethod):
    """A scale for each 128x128 block of a weight; x and h are quantised in groups of 128."""

    weight_dtype = torch.float8_e4m3fn
    quantise_operation = PER_TOKEN_GROUP_FP8_QUANT
    multiply_operation = GROUPED_FP8_BLOCK_SCALED_MM
    scale_name = "weight_scale_inv"
    scale_kind = BlockScaleParameter
    scale_units = {"row_unit": GROUP, "column_unit": GROUP}  # noqa: RUF012


def _check_positive(layer: FusedMoE, name: str) -> None:
    smallest = float(layer.get_parameter(name).data.min())
    if smallest <= 0:
        raise ValueError(
            f"layer '{layer.prefix}': the smallest {name} is {smallest:g}, wanted above 0, as "
            f"activations are divided by it. Calibrate the model again, or use "
            f'"activation_scheme": "dynamic".'
        )
