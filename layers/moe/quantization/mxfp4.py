"""MXFP4 experts, as gpt-oss has them: E2M1 codes, an E8M0 scale a block of 32; weight-only.

Checkpoint tensors of all experts in one, with gate and up rows in turn, gate first:

- `gate_up_proj_blocks` uint8 (E, 2I, H / 32, 16), `down_proj_blocks` uint8 (E, H, I / 32, 16): two
  codes a byte, the even column in the low nibble;
- `gate_up_proj_scales` uint8 E8M0 (E, 2I, H / 32), `down_proj_scales` (E, H, I / 32);
- `gate_up_proj_bias` (E, 2I), `down_proj_bias` (E, H), where the layer has biases.

Or the same under the parameters' own names, `w13_weight` (E, 2I, H / 2) and so on; or single
experts' `weight` and `weight_scale`. Loading takes the rows apart: the parameters hold [gate; up].

x and h stay as they are, and w ≈ code · 2^(scale - 127) is exact. gpt-oss's activation is
`swiglu_oai` of `layers.kernels.moe.activation`; its down bias is weighted like the expert's output,
and where ranks split an expert the first one adds it.

H and I need to be multiples of 32, and each rank's part of I: 2880 and 192 are no obstacle to
`torch` and `triton`, which read the bytes unpadded. `flashinfer` (sm100 and newer) pads: see
`layers.moe.runners.flashinfer_mxfp4`. No backend keeps a dequantised weight.

FlashInfer's `cutlass_fused_moe` has an MXFP4 path for sm90 as well. It is no backend here: it is
compiled on first use, from some 180 CUTLASS sources, and cannot be split from the other formats'.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch

from layers.copyable import replace_parameter
from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp4.scales import MXFP4
from layers.kernels.fp4.swizzle import swizzle
from layers.kernels.moe_fp4.fp4_grouped_mm import MXFP4_GROUPED_MM
from layers.moe.parameter import ExpertParameter
from layers.moe.quantization.registry import register_moe
from layers.moe.quantization.staged import StagedMoEMethod
from layers.quantization.base import QuantizationConfig
from layers.quantization.fp4_layer import check_whole_blocks
from layers.quantization.mxfp4 import Mxfp4Config
from layers.scale_parameter import BlockScaleParameter

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


def _load_flashinfer() -> Any:
    from layers.moe.runners.flashinfer_mxfp4 import prepare

    return prepare


FLASHINFER = Backend(
    "flashinfer",
    Needs(
        package="flashinfer",
        min_arch=(10, 0),
        max_arch=(10, 3),
        dtypes=(torch.bfloat16,),
        k_multiple=MXFP4.group,
    ),
    _load_flashinfer,
)


# Every runner, best first: what a layer of this format can be multiplied by.
MXFP4_RUNNERS = Operation(MXFP4_GROUPED_MM.name, (FLASHINFER, *MXFP4_GROUPED_MM.backends))


@register_moe("mxfp4")
class Mxfp4MoEMethod(StagedMoEMethod):
    """Parameters, gate rows above up rows:

    - `w13_weight` uint8 (E, 2I, H / 2), `w2_weight` uint8 (E, H, I / 2);
    - `w13_weight_scale` uint8 (E, 2I, H / 32), `w2_weight_scale` (E, H, I / 32); after post-load
      each expert's swizzled by itself, (E, 2I to a multiple of 128, H / 32 to one of 4), see
      `layers.kernels.fp4.swizzle`.
    """

    multiply_operation = MXFP4_GROUPED_MM
    external_backends: tuple[Backend, ...] = (FLASHINFER,)
    prefers_external = True
    scale_name = "weight_scale"

    @classmethod
    def from_config(cls, config: QuantizationConfig, backend: str | None) -> Self:
        """Weight-only, as the config must have it.

        Raises:
            TypeError: another config than `Mxfp4Config`.
            ValueError: another activation_scheme than "none".
        """
        if not isinstance(config, Mxfp4Config):
            raise TypeError(
                f"the MoE method of mxfp4 takes an Mxfp4Config, not {type(config).__name__}"
            )
        if config.activation_scheme != "none":
            raise ValueError(
                f"mxfp4: activation_scheme is {config.activation_scheme!r}, wanted 'none': MoE "
                f"layers are weight-only. Correct the quantisation config."
            )
        return cls(backend)

    def create_weights(
        self, layer: FusedMoE, params_dtype: torch.dtype, device: torch.device
    ) -> None:
        """Registers the four tensors.

        Raises:
            ValueError: H, or a rank's part of I, is no multiple of 32.
        """
        check_whole_blocks(layer.experts.w13, MXFP4)
        check_whole_blocks(layer.experts.w2, MXFP4)
        shared: dict[str, Any] = {"dtype": torch.uint8, "device": device}
        for matmul in ("w13", "w2"):
            shared["interleaved"] = matmul == "w13"
            weight, scale = f"{matmul}_weight", f"{matmul}_weight_scale"
            packed: dict[str, Any] = {"column_unit": 2, "block_bytes": MXFP4.group // 2}
            layer.register_parameter(
                weight, ExpertParameter(layer.experts, weight, **packed, **shared)
            )
            options: dict[str, Any] = {"kind": BlockScaleParameter, "column_unit": MXFP4.group}
            layer.register_parameter(
                scale, ExpertParameter(layer.experts, scale, **options, **shared)
            )

    def process_weights_after_loading(self, layer: FusedMoE) -> None:
        """Chooses the runner and swizzles the scales.

        Raises:
            BackendUnavailable: the runner asked for cannot run this layer on this device.
            ValueError: a parameter that is not contiguous.
        """
        super().process_weights_after_loading(layer)
        if self.run is not None:
            return
        for name in ("w13_weight_scale", "w2_weight_scale"):
            replace_parameter(layer, name, swizzle(layer.get_parameter(name).data))
        multiply: Any = self.multiply_w13
        self.multiply_w13 = self.multiply_w2 = partial(multiply, block=MXFP4)
