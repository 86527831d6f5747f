"""MXFP4 linear layers: E2M1 codes, an E8M0 scale a block of 32.

Checkpoint tensors of a linear layer: `weight` uint8 (N, K / 2), two codes a byte, the even column
in the low nibble; `weight_scale` uint8 E8M0 (N, K / 32), row-major, with
w ≈ code · 2^(scale - 127). Shards of a fused layer keep their scales, each in its own rows.

`activation_scheme` of the config says what becomes of x: "none" leaves it as it is (weight-only, as
gpt-oss is served; backends `triton` and `torch`); "dynamic" quantises it to MXFP4 as well (W4A4;
`flashinfer` on sm100 and newer, `triton`, `torch`), with the rule of
`layers.kernels.fp4.mxfp4_quant`. No backend keeps a dequantised weight: `torch` dequantises at most
16 MiB at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import torch

from layers.copyable import replace_parameter
from layers.kernels.capability import select_backend, select_companion
from layers.kernels.fp4.alpha_runs import arrange_runs
from layers.kernels.fp4.dequantise import dequantise_swizzled
from layers.kernels.fp4.mxfp4_mm import MXFP4_MM, RUN_ROW_MULTIPLE
from layers.kernels.fp4.mxfp4_quant import MXFP4_QUANT
from layers.kernels.fp4.scales import MXFP4
from layers.kernels.fp4.swizzle import swizzle
from layers.kernels.fp4.w4a16_mm import W4A16_MM
from layers.parameter import ModelWeightParameter, check_contiguous
from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
)
from layers.quantization.fp4_layer import (
    check_no_gradient,
    check_whole_blocks,
    problem_of,
)
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register
from layers.scale_parameter import BlockScaleParameter
from layers.sharding import LinearLayout

SCHEMES = ("none", "dynamic")


@register("mxfp4")
class Mxfp4Config(QuantizationConfig):
    """Picks `Mxfp4LinearMethod` for every linear layer that is not ignored.

    Args:
        activation_scheme: "none", weight-only, or "dynamic", W4A4.
        options: see `QuantizationConfig`.

    Raises:
        ValueError: another scheme.
    """

    def __init__(self, *, activation_scheme: str = "none", **options: Any) -> None:
        if activation_scheme not in SCHEMES:
            raise ValueError(
                f"mxfp4: activation_scheme is {activation_scheme!r}, wanted 'none' (weight-only) "
                f"or 'dynamic' (x in MXFP4 too). Correct the quantisation config."
            )
        super().__init__(**options)
        self.activation_scheme = activation_scheme

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Reads `activation_scheme`, "none" where it is missing, and `common_options`.

        Raises:
            ValueError: another scheme, or blocks of another size.
        """
        check_values("mxfp4", config, group_size=(MXFP4.group,), weight_block_size=([1, 32],))
        scheme = config.get("activation_scheme", "none")
        return cls(activation_scheme=scheme, backend=backend, **common_options(config))

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        return Mxfp4LinearMethod(self.activation_scheme, self.backend)


class Mxfp4LinearMethod(LinearMethodBase):
    """Parameters: `weight` as in the checkpoint; `weight_scale`, after post-load swizzled
    (N128, C4) uint8, see `layers.kernels.fp4.swizzle`.

    Attributes, set by post-load:
        quantise: x (M, K) -> packed codes (M, K / 2) uint8, swizzled scales uint8; None if x is not
            quantised.
        multiply: (codes, scales, or x alone; weight, weight_scale, None, dtype, bias) -> (M, N).
        backends: names of the backends by operation.
    """

    quantise: Callable[..., Any] | None
    multiply: Callable[..., Any]
    _weight: torch.Tensor
    _weight_scale: torch.Tensor
    _dtype: torch.dtype
    _arranged: bool

    def __init__(self, activation_scheme: str = "none", backend: str | None = None) -> None:
        self.activation_scheme = activation_scheme
        self.backend = backend
        self.backends: dict[str, str] = {}

    def create_weights(
        self,
        layer: torch.nn.Module,
        layout: LinearLayout,
        params_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Registers the two tensors of the checkpoint.

        Raises:
            ValueError: K, or a rank's part of it, is no multiple of 32.
        """
        check_whole_blocks(layout, MXFP4)
        shared: dict[str, Any] = {"dtype": torch.uint8, "device": device}
        layer.weight = ModelWeightParameter(layout, name="weight", column_unit=2, **shared)
        layer.weight_scale = BlockScaleParameter(
            layout, name="weight_scale", column_unit=MXFP4.group, **shared
        )
        self._dtype = params_dtype

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Chooses the backends and swizzles the scales.

        Raises:
            BackendUnavailable: the backend asked for cannot run this shape on this device.
            ValueError: a parameter that is not contiguous, which the kernels take for granted.
        """
        check_contiguous(layer)
        weight = layer.get_parameter("weight").data
        problem = problem_of(layer, self._dtype)
        if self.activation_scheme == "none":
            chosen = select_backend(W4A16_MM, weight.device, problem, self.backend)
            self.backends = {W4A16_MM.name: chosen.name}
            self.quantise = None
            self.multiply = partial(chosen.load(), block=MXFP4)
        else:
            chosen = select_backend(MXFP4_MM, weight.device, problem, self.backend)
            quantise = select_companion(MXFP4_QUANT, weight.device, problem, chosen.name)
            self.backends = {MXFP4_QUANT.name: quantise.name, MXFP4_MM.name: chosen.name}
            self.quantise = quantise.load()
            self.multiply = chosen.load()
        scales = layer.get_parameter("weight_scale").data
        if self.quantise is not None and chosen.name in RUN_ROW_MULTIPLE:
            arranged = arrange_runs(
                *(weight, scales, None),
                row_multiple=RUN_ROW_MULTIPLE[chosen.name],
                column_multiple=MXFP4.group,
            )
            self.multiply = partial(self.multiply, runs=arranged.runs)
            weight, scales = replace_parameter(layer, "weight", arranged.weight), arranged.scale
            self._arranged = True
        else:
            scales = swizzle(scales)
            self._arranged = False
        self._weight = weight
        self._weight_scale = replace_parameter(layer, "weight_scale", scales)

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x (M, K), bias (N,) -> (M, N), all of params_dtype.

        Raises:
            ValueError: a gradient is asked for; autograd would not see through the codes.
        """
        check_no_gradient(x)
        operands = (x,) if self.quantise is None else self.quantise(x)
        out: torch.Tensor = self.multiply(
            *operands, self._weight, self._weight_scale, None, self._dtype, bias
        )
        return out

    def dequantised_weight(self, layer: torch.nn.Module) -> torch.Tensor:
        """Codes times their scales, (N, K) float32; none where FlashInfer's kernel arranged them.

        Raises:
            ValueError: it did.
        """
        if self._arranged:
            return super().dequantised_weight(layer)
        return dequantise_swizzled(self._weight, self._weight_scale, MXFP4)
