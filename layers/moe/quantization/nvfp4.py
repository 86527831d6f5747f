"""NVFP4 experts: E2M1 codes, an E4M3 scale a block of 16, float32 scales of each matrix.

Checkpoint tensors of each expert's w1 (gate), w3 (up) and w2 (down) are those of
`layers.quantization.nvfp4_linear`: `weight`, `weight_scale`, `weight_scale_2`, `input_scale`. They
are loaded into

- `w13_weight` uint8 (E, 2I, H / 2), `w2_weight` uint8 (E, H, I / 2);
- `w13_weight_scale` float8_e4m3fn (E, 2I, H / 16), `w2_weight_scale` (E, H, I / 16), row-major;
- `w13_weight_scale_2` float32 (E, 2), `w2_weight_scale_2` (E, 1);
- `w13_input_scale` float32 (all experts, 2), `w2_input_scale` (E, 1).

**Unequal scales.** Every expert's gate and up keep their own `weight_scale_2`: alpha =
weight_scale_2[expert, gate or up] · input_scale, applied in float32, so the weights lose nothing.

**input_scale.** x is quantised once for all experts, so by the largest `w13_input_scale` of all
experts of the layer, gate and up, also of those on other ranks: each rank loads them all, and the
answer does not depend on how experts are divided. h is quantised by the `w2_input_scale` of its own
expert. What the first costs in accuracy, `layers.quantization.nvfp4_linear` says of shards.

**Backends.** `flashinfer` (sm100 and newer) and `torch` quantise x and h: W4A4. `triton` (sm80 and
newer; sm90's default) does not: x and h stay as they are, and no `input_scale` is used. `torch` and
`triton` read the same bytes. No backend keeps a dequantised weight.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch

from layers.copyable import replace_parameter
from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.scales import NVFP4
from layers.kernels.fp4.swizzle import swizzle
from layers.kernels.moe.routing import Routing
from layers.kernels.moe_fp4.fp4_grouped_mm import NVFP4_GROUPED_MM
from layers.kernels.moe_fp4.nvfp4_quant_rows import NVFP4_QUANT_BY_EXPERT, NVFP4_QUANT_ROWS
from layers.moe.parameter import ExpertParameter
from layers.moe.quantization.nvfp4_scales import shared_input_scale
from layers.moe.quantization.registry import register_moe
from layers.moe.quantization.staged import StagedMoEMethod
from layers.quantization.base import QuantizationConfig
from layers.quantization.fp4_layer import alpha_of, check_input_scale, check_whole_blocks
from layers.quantization.modelopt_fp4 import ModelOptFp4Config
from layers.scale_parameter import BlockScaleParameter, PerTensorScaleParameter

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE

GROUP = NVFP4.group
WEIGHT_ONLY = frozenset({"triton"})


def _load_flashinfer() -> Any:
    from layers.moe.runners.flashinfer_nvfp4 import prepare

    return prepare


FLASHINFER = Backend(
    "flashinfer",
    Needs(
        package="flashinfer",
        min_arch=(10, 0),
        dtypes=(torch.float16, torch.bfloat16),
        k_multiple=GROUP,
    ),
    _load_flashinfer,
)


# Every runner, best first: what a layer of this format can be multiplied by.
NVFP4_RUNNERS = Operation(NVFP4_GROUPED_MM.name, (FLASHINFER, *NVFP4_GROUPED_MM.backends))


@register_moe("modelopt_fp4", "modelopt")
class Nvfp4MoEMethod(StagedMoEMethod):
    """Parameters as in the module's docstring; after post-load, for `torch` and `triton`:

    - `w13_weight`, `w2_weight` unchanged;
    - `w13_weight_scale`, `w2_weight_scale` uint8, each expert's swizzled by itself:
      (E, 2I to a multiple of 128, H / 16 to one of 4), see `layers.kernels.fp4.swizzle`;
    - `w13_weight_scale_2` (E, 2) and `w2_weight_scale_2` (E, 1), the factors of the products: alpha
      where x is quantised, weight_scale_2 as loaded where it is not;
    - where x is quantised, `w13_input_scale` (1,).

    For `flashinfer` see `layers.moe.runners.flashinfer_nvfp4`.
    """

    multiply_operation = NVFP4_GROUPED_MM
    external_backends: tuple[Backend, ...] = (FLASHINFER,)
    prefers_external = True
    scale_name = "weight_scale"

    @classmethod
    def from_config(cls, config: QuantizationConfig, backend: str | None) -> Self:
        """A new method.

        Raises:
            TypeError: another config than `ModelOptFp4Config`.
        """
        if not isinstance(config, ModelOptFp4Config):
            raise TypeError(
                f"the MoE method of modelopt_fp4 takes a ModelOptFp4Config, not "
                f"{type(config).__name__}"
            )
        return cls(backend)

    def create_weights(
        self, layer: FusedMoE, params_dtype: torch.dtype, device: torch.device
    ) -> None:
        """Registers the eight tensors of the module's docstring.

        Raises:
            ValueError: H, or a rank's part of I, is no multiple of 16.
        """
        check_whole_blocks(layer.experts.w13, NVFP4)
        check_whole_blocks(layer.experts.w2, NVFP4)
        scalar: dict[str, Any] = {"kind": PerTensorScaleParameter, "dtype": torch.float32}
        block: dict[str, Any] = {"kind": BlockScaleParameter, "dtype": torch.float8_e4m3fn}
        for matmul in ("w13", "w2"):
            tensors: dict[str, dict[str, Any]] = {
                "weight": {"dtype": torch.uint8, "column_unit": 2},
                "weight_scale": {**block, "column_unit": GROUP},
                "weight_scale_2": scalar,
                "input_scale": {**scalar, "all_experts": matmul == "w13"},
            }
            for suffix, options in tensors.items():
                name = f"{matmul}_{suffix}"
                parameter = ExpertParameter(layer.experts, name, device=device, **options)
                layer.register_parameter(name, parameter)

    def process_weights_after_loading(self, layer: FusedMoE) -> None:
        """Chooses the runner and replaces the scales as the class says.

        Raises:
            BackendUnavailable: the runner asked for cannot run this layer on this device.
            ValueError: a parameter that is not contiguous; an input_scale that is not positive.
        """
        is_served = layer.activation == "silu" and not layer.has_bias
        if not is_served and self.backend != FLASHINFER.name:
            self.external_backends = ()
        super().process_weights_after_loading(layer)
        if self.run is not None:
            return
        for matmul in ("w13", "w2"):
            scales = layer.get_parameter(f"{matmul}_weight_scale").data.view(torch.uint8)
            replace_parameter(layer, f"{matmul}_weight_scale", swizzle(scales))
            if self.quantise_input is not None:
                factors = layer.get_parameter(f"{matmul}_weight_scale_2").data
                factors = factors * layer.get_parameter(f"{matmul}_input_scale").data
                replace_parameter(layer, f"{matmul}_weight_scale_2", factors)
        multiply: Any = self.multiply_w13
        # The parameters themselves, not their data: a copied layer's method then has the copy's.
        self.multiply_w13, self.multiply_w2 = (
            partial(multiply, block=NVFP4, alpha=layer.get_parameter(f"{m}_weight_scale_2"))
            for m in ("w13", "w2")
        )

    def fold(self, layer: FusedMoE) -> None:
        """Folds nothing, but refuses what the runner would divide or multiply by in vain.

        Raises:
            ValueError: an input_scale that is not positive, or a product out of float32's range.
        """
        if self.backends[NVFP4_GROUPED_MM.name] in WEIGHT_ONLY:
            return
        scales = {
            "w13": shared_input_scale(layer),
            "w2": check_input_scale(layer, "w2_input_scale"),
        }
        for matmul, scale in scales.items():
            parameter = layer.get_parameter(f"{matmul}_weight_scale_2")
            name = getattr(parameter, "full_name", f"{matmul}_weight_scale_2")
            alpha_of(name, parameter.data, scale)

    def set_quantisers(
        self, layer: FusedMoE, companion: Callable[[Operation], Callable[..., Any]]
    ) -> None:
        """x by the layer's largest scale and h by its expert's; nothing where weight-only."""
        if self.backends[NVFP4_GROUPED_MM.name] in WEIGHT_ONLY:
            return
        replace_parameter(layer, "w13_input_scale", shared_input_scale(layer))
        self.quantise_input = partial(
            companion(NVFP4_QUANT_ROWS), input_scale=layer.get_parameter("w13_input_scale")
        )
        self.quantise_hidden = partial(
            companion(NVFP4_QUANT_BY_EXPERT), input_scale=layer.get_parameter("w2_input_scale")
        )

    def _quantise_hidden(
        self, h: torch.Tensor, routing: Routing
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return (h, None) if self.quantise_hidden is None else self.quantise_hidden(h, routing)
