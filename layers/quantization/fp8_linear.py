"""FP8 (e4m3) linear methods: weights with a scale a tensor, a row, or a block of 128x128.

Everywhere w ≈ weight · scale, with weights and activations in float8_e4m3fn, whose largest value is
448. Products are summed, scaled and added to the bias in float32, and rounded once.
"""

from __future__ import annotations

from functools import partial

import torch

from layers.copyable import replace_parameter
from layers.kernels.capability import Backend, Operation, Problem
from layers.kernels.fp8.fp8_block_scaled_mm import BLOCK, FP8_BLOCK_SCALED_MM
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM, TAKE_SCALARS
from layers.kernels.fp8.per_token_fp8_quant import PER_TOKEN_FP8_QUANT
from layers.kernels.fp8.per_token_group_fp8_quant import PER_TOKEN_GROUP_FP8_QUANT
from layers.kernels.fp8.static_fp8_quant import STATIC_FP8_QUANT
from layers.quantization.w8a8_linear import W8A8LinearMethod
from layers.scale_parameter import (
    BlockScaleParameter,
    ChannelScaleParameter,
    PerTensorScaleParameter,
)
from layers.sharding import LinearLayout

INPUT_SCALE = "input_scale"


class Fp8TensorLinearMethod(W8A8LinearMethod):
    """Weights with one scale a checkpoint tensor, activations static or dynamic.

    Checkpoint tensors: `weight` (N, K) e4m3; `weight_scale` float32, () or (1,) for each shard; and
    with static activations `input_scale`, likewise.

    Post-load gives each row of the weight the scale of its shard, (N, 1): layers fused from tensors
    of unequal scales stay exact, and no weight is quantised again. It costs 4 bytes a row, and
    nothing in speed, as the kernels apply scales by column of the output either way. Only where all
    scales are equal, activations static, and the kernel faster with single ones, is it (1, 1).

    Static activations are quantised once for all shards, so by the largest of the `input_scale`s:
    smaller ones would saturate what the others cover. Dynamic ones have one scale a token, amax /
    448, in place of one for the batch: a token's result then does not depend on its neighbours, and
    a NaN stays in its row.
    """

    weight_dtype = torch.float8_e4m3fn
    multiply_operation = FP8_SCALED_MM
    scale_name = "weight_scale"

    def __init__(self, backend: str | None = None, *, static: bool) -> None:
        super().__init__(backend)
        self.static = static

    def quantiser(self) -> Operation:
        """By the checkpoint's scale, or by one a token."""
        return STATIC_FP8_QUANT if self.static else PER_TOKEN_FP8_QUANT

    def create_weights(
        self,
        layer: torch.nn.Module,
        layout: LinearLayout,
        params_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Registers `weight` (N, K), `weight_scale` (shards,) and, if static, `input_scale`."""
        super().create_weights(layer, layout, params_dtype, device)
        self._rows = [shard.rows.size for shard in layout.shards]
        if self.static:
            scale = PerTensorScaleParameter(
                layout, name=INPUT_SCALE, dtype=torch.float32, device=device
            )
            layer.register_parameter(INPUT_SCALE, scale)

    def create_scale(self, layout: LinearLayout, device: torch.device) -> PerTensorScaleParameter:
        """(shards,) float32."""
        return PerTensorScaleParameter(
            layout, name=self.scale_name, dtype=torch.float32, device=device
        )

    def problem(self, layer: torch.nn.Module) -> Problem:
        """As the base class, and whether single scales would do."""
        base = super().problem(layer)
        scales = layer.get_parameter(self.scale_name).data
        single = self.static and bool((scales == scales[0]).all())
        return Problem(base.dtype, base.k, base.n, bias=base.bias, scalar_scales=single)

    def prepare(self, layer: torch.nn.Module, multiply: Backend) -> None:
        """Brings the scales into the form above.

        Raises:
            ValueError: an `input_scale` that is not above 0.
        """
        # First what may be refused: a layer is changed whole or not at all.
        input_scale = self._largest_input_scale(layer) if self.static else None
        single = self.problem(layer).scalar_scales and multiply.name in TAKE_SCALARS
        scales = layer.get_parameter(self.scale_name).data
        rows = torch.tensor([1] if single else self._rows, device=scales.device)
        by_row = scales[: len(rows)].repeat_interleave(rows).view(-1, 1)
        replace_parameter(layer, self.scale_name, by_row)
        if input_scale is not None:
            replace_parameter(layer, INPUT_SCALE, input_scale)
            self.quantise = partial(self.quantise, scale=input_scale, per_row=not single)

    def _largest_input_scale(self, layer: torch.nn.Module) -> torch.Tensor:
        parameter = layer.get_parameter(INPUT_SCALE)
        smallest = float(parameter.data.min())
        if smallest <= 0:
            raise ValueError(
                f"parameter '{getattr(parameter, 'full_name', INPUT_SCALE)}' is {smallest:g}, "
                f"wanted above 0, as activations are divided by it. Calibrate the model again, or "
                f'use "activation_scheme": "dynamic".'
            )
        return parameter.data.max().view(1, 1)


class Fp8ChannelLinearMethod(W8A8LinearMethod):
    """Weights with a scale for each row (output channel), activations with one a token.

    Checkpoint tensors: `weight` (N, K) e4m3; `weight_scale` (N, 1) float32. Shards of a fused layer
    keep their scales, each in its own rows. A token's scale is amax / 448.
    """

    weight_dtype = torch.float8_e4m3fn
    quantise_operation = PER_TOKEN_FP8_QUANT
    multiply_operation = FP8_SCALED_MM
    scale_name = "weight_scale"

    def create_scale(self, layout: LinearLayout, device: torch.device) -> ChannelScaleParameter:
        """(N, 1) float32."""
        return ChannelScaleParameter(
            layout, name=self.scale_name, dtype=torch.float32, device=device
        )


class Fp8BlockLinearMethod(W8A8LinearMethod):
    """Weights with a scale for each block of 128x128, activations with one for 128 of a token.

    Checkpoint tensors (DeepSeek-V3): `weight` (N, K) e4m3; `weight_scale_inv` float32
    (ceil(N / 128), ceil(K / 128)), which, its name notwithstanding, multiplies. The last block of
    rows and of columns may be ragged, but a block never spans two shards or two ranks: such a layer
    is refused when it is built. A group's scale is amax / 448.
    """

    weight_dtype = torch.float8_e4m3fn
    quantise_operation = PER_TOKEN_GROUP_FP8_QUANT
    multiply_operation = FP8_BLOCK_SCALED_MM
    scale_name = "weight_scale_inv"

    def create_scale(self, layout: LinearLayout, device: torch.device) -> BlockScaleParameter:
        """(ceil(N / 128), ceil(K / 128)) float32.

        Raises:
            ValueError: a shard or rank boundary cuts through a block.
        """
        return BlockScaleParameter(
            layout,
            name=self.scale_name,
            dtype=torch.float32,
            device=device,
            row_unit=BLOCK,
            column_unit=BLOCK,
        )

    def scales_of_values(self, scale: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """(ceil(N / 128), ceil(K / 128)) -> (N, K)."""
        rows = scale.repeat_interleave(BLOCK, dim=0)[: codes.shape[0]]
        return rows.repeat_interleave(BLOCK, dim=1)[:, : codes.shape[1]]
