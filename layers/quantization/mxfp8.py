"""MXFP8: e4m3 with an E8M0 scale for each 32 of K, in weights and in activations (OCP MX 1.0).

Checkpoint tensors of a linear layer: `weight` e4m3 (N, K), K a multiple of 32; `weight_scale_inv`
uint8 (N, K / 32), which, its name notwithstanding, multiplies: w ≈ weight · 2^(byte - 127).
Activations take the smallest power of two under which nothing saturates, as FlashInfer's
`mxfp8_quantize` does.

Tensor cores that read such scales are those of sm100 and newer. FlashInfer's kernels for them are
called as its sources say, and never ran here; elsewhere Triton scales codes in registers, exactly,
and multiplies them as bfloat16. No backend keeps a dequantised weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from layers.copyable import replace_parameter
from layers.kernels.capability import Backend
from layers.kernels.fp4.swizzle import padded, swizzle, unswizzle
from layers.kernels.fp8.mxfp8_quant import MXFP8_QUANT
from layers.kernels.fp8.mxfp8_scaled_mm import BLOCK, MXFP8_SCALED_MM, decode_scales
from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
)
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register
from layers.quantization.w8a8_linear import W8A8LinearMethod
from layers.scale_parameter import BlockScaleParameter
from layers.sharding import LinearLayout


@register("mxfp8")
class MxFp8Config(QuantizationConfig):
    """Picks `MxFp8LinearMethod` for every linear layer that is not ignored."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads the keys of `layers.quantization.base.common_options`; none is required.

        Raises:
            ValueError: an activation_scheme or weight_block_size of another method.
        """
        blocks: Sequence[Any] = ([1, 32],)
        check_values("mxfp8", config, activation_scheme=("dynamic",), weight_block_size=blocks)
        return cls(backend=backend, **common_options(config))

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        return MxFp8LinearMethod(self.backend)


class MxFp8LinearMethod(W8A8LinearMethod):
    """Parameters: `weight` (N, K) e4m3, `weight_scale_inv` uint8; see the module.

    For FlashInfer's kernel post-load replaces `weight_scale_inv` by its swizzled bytes, flat, with
    rows padded to 128 and blocks to 4.
    """

    weight_dtype = torch.float8_e4m3fn
    quantise_operation = MXFP8_QUANT
    multiply_operation = MXFP8_SCALED_MM
    scale_name = "weight_scale_inv"

    def create_scale(self, layout: LinearLayout, device: torch.device) -> BlockScaleParameter:
        """(N, K / 32) uint8.

        Raises:
            ValueError: K is no multiple of 32, or a rank boundary cuts through a block.
        """
        columns = layout.inputs.total
        if columns % BLOCK:
            raise ValueError(
                f"layer '{layout.name}': K is {columns}, wanted a multiple of {BLOCK}, the block "
                f"of mxfp8. Leave this layer unquantised, or pad the model's weight with zeros."
            )
        return BlockScaleParameter(
            layout, name=self.scale_name, dtype=torch.uint8, device=device, column_unit=BLOCK
        )

    def prepare(self, layer: torch.nn.Module, multiply: Backend) -> None:
        """Swizzles the scales for the kernel that reads them so."""
        if multiply.name == "flashinfer":
            scales = layer.get_parameter(self.scale_name).data
            replace_parameter(layer, self.scale_name, swizzle(scales).view(-1))

    def scales_of_values(self, scale: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """(N, K / 32) bytes, or the same swizzled -> (N, K)."""
        rows, columns = codes.shape[0], codes.shape[1] // BLOCK
        if scale.dim() == 1:
            scale = unswizzle(scale.view(padded(rows, columns)), rows, columns)
        return decode_scales(scale).repeat_interleave(BLOCK, dim=1)
