"""int8 experts: a scale a weight row and token, or by blocks; the formats of the linear methods.

- `w8a8_int8`: `w13_weight_scale` (E, 2I, 1), `w2_weight_scale` (E, H, 1);
- `blockwise_int8`: `w13_weight_scale_inv` (E, ceil(2I / 128), ceil(H / 128)), `w2_weight_scale_inv`
  (E, ceil(H / 128), ceil(I / 128)); a rank's part of I is a multiple of 128.
"""

from __future__ import annotations

import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 the configs register themselves
from layers.kernels.moe.grouped_int8 import GROUPED_INT8_BLOCK_SCALED_MM, GROUPED_INT8_SCALED_MM
from layers.kernels.per_token_group_int8_quant import GROUP, PER_TOKEN_GROUP_INT8_QUANT
from layers.kernels.per_token_int8_quant import PER_TOKEN_INT8_QUANT
from layers.moe.quantization.registry import register_moe
from layers.moe.quantization.w8a8 import W8A8MoEMethod
from layers.scale_parameter import BlockScaleParameter, ChannelScaleParameter


@register_moe("w8a8_int8")
class W8A8Int8MoEMethod(W8A8MoEMethod):
    """A scale for each weight row; x and h are quantised by token and pair."""

    weight_dtype = torch.int8
    quantise_operation = PER_TOKEN_INT8_QUANT
    multiply_operation = GROUPED_INT8_SCALED_MM
    scale_name = "weight_scale"
    scale_kind = ChannelScaleParameter
    scale_units = {}  # noqa: RUF012 of the class, never changed


@register_moe("blockwise_int8")
class BlockwiseInt8MoEMethod(W8A8MoEMethod):
    """A scale for each 128x128 block of a weight; x and h are quantised in groups of 128."""

    weight_dtype = torch.int8
    quantise_operation = PER_TOKEN_GROUP_INT8_QUANT
    multiply_operation = GROUPED_INT8_BLOCK_SCALED_MM
    scale_name = "weight_scale_inv"
    scale_kind = BlockScaleParameter
    scale_units = {"row_unit": GROUP, "column_unit": GROUP}  # noqa: RUF012
