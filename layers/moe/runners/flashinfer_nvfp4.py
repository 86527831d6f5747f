"""NVFP4 experts on sm100 and newer, by FlashInfer's fused `cutlass_fused_moe`.

**This has never run: no sm100 was at hand.** Arguments, shapes and layouts are those that the
sources of flashinfer 0.6.13 ask for (fused_moe/core.py; csrc/fused_moe/cutlass_backend,
`getQuantParams`, `doActivation` and `finalizeMoeRouting`); 0.7.4 takes the same keywords. The first
call compiles some 260 CUTLASS sources, unless the package flashinfer-jit-cache is installed.

Post-load makes, and puts in place of what was loaded:

- gate and up change places, [up; gate], and each is padded with zeros to a multiple of 64 rows, as
  is K of w2: the padding's h is 0;
- block scales of each expert, swizzled after that;
- `w13_input_scale` (): 1 / the largest input_scale of all experts, the factor of x;
- `w13_weight_scale_2` (E,): the factor of the first product, input_scale · gate's weight_scale_2;
- `w2_input_scale` (E,): up's weight_scale_2 / (gate's weight_scale_2 · input_scale), the factor of
  h. The kernel scales gate and up alike, so its h lacks the ratio of their scales; this factor
  gives it back before h is quantised, and unequal scales are exact;
- `w2_weight_scale_2` (E,): the factor of the second product.

Where it differs from the staged runners: the first product is rounded to params_dtype before the
activation and h is not, expert outputs are rounded to params_dtype before they are summed in
float32, and the quantiser takes approximate reciprocals and drops NaN (see
`layers.kernels.fp4.nvfp4_quant`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from layers.copyable import replace_parameter
from layers.kernels.capability import BackendUnavailable
from layers.kernels.fp4.swizzle import swizzle
from layers.kernels.moe.routing import Routing
from layers.moe.quantization.nvfp4_scales import shared_input_scale
from layers.moe.quantization.staged import StagedMoEMethod
from layers.moe.topk import TopKOutput
from layers.quantization.fp4_layer import check_input_scale
from layers.sharding import ceil_div

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE

ROWS_MULTIPLE = 64
GROUP = 16


def prepare(method: StagedMoEMethod, layer: FusedMoE) -> None:
    """Brings the layer's parameters into the layout above and sets `method.run`.

    Raises:
        BackendUnavailable: an activation or a bias that the kernel would get wrong.
        ValueError: an input_scale that is not positive.
    """
    if layer.activation != "silu" or layer.has_bias:
        raise BackendUnavailable(
            f"layer '{layer.prefix}': backend 'flashinfer' needs activation 'silu' and no bias, "
            f"they are {layer.activation!r} and {layer.has_bias}. Ask for backend 'triton'."
        )
    _replace_factors(layer)
    _replace_weights(layer)
    method.run = run


def run(layer: FusedMoE, x: torch.Tensor, topk: TopKOutput) -> torch.Tensor:
    """x (T, H) -> this rank's part of the output, (T, H)."""
    from flashinfer.fused_moe import cutlass_fused_moe

    names = ("input_scale", "weight_scale", "weight_scale_2")
    scales = [layer.get_parameter(f"{m}_{n}").data for m in ("w13", "w2") for n in names]
    # The kernel counts packed weights and scales in whole words.
    scales[1], scales[4] = scales[1].view(torch.int32), scales[4].view(torch.int32)
    weights = (layer.get_parameter(f"{m}_weight").data.view(torch.int64) for m in ("w13", "w2"))
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    # Ids of other ranks' experts, -1, are passed over.
    ids = Routing.of(topk.ids, layer.experts.experts).ids
    with torch.cuda.device_of(x):
        cutlass_fused_moe(
            *(x.contiguous(), ids, topk.weights, *weights),
            output_dtype=x.dtype,
            quant_scales=scales,
            output=out,
        )
    return out


def _replace_factors(layer: FusedMoE) -> None:
    x_scale, h_scale = shared_input_scale(layer), check_input_scale(layer, "w2_input_scale")[:, 0]
    gate, up = layer.get_parameter("w13_weight_scale_2").data.unbind(1)
    # An expert whose gate is all zeros has no output, whatever its up is.
    ratio = torch.where(gate == 0, 1.0, up / gate)
    factors: dict[str, Any] = {
        "w13_input_scale": (1 / x_scale).reshape(()),
        "w13_weight_scale_2": x_scale * gate,
        "w2_input_scale": ratio / h_scale,
        "w2_weight_scale_2": h_scale * layer.get_parameter("w2_weight_scale_2").data[:, 0],
    }
    for name, value in factors.items():
        replace_parameter(layer, name, value.contiguous())


def _replace_weights(layer: FusedMoE) -> None:
    rows = layer.experts.intermediate_size
    missing = ceil_div(rows, ROWS_MULTIPLE) * ROWS_MULTIPLE - rows
    for name, per_byte in (("w13_weight", 2), ("w13_weight_scale", GROUP)):
        gate, up = layer.get_parameter(name).data.view(torch.uint8).chunk(2, dim=1)
        swapped = torch.cat([F.pad(half, (0, 0, 0, missing)) for half in (up, gate)], dim=1)
        replace_parameter(layer, name, swapped if per_byte == 2 else swizzle(swapped))
        name = name.replace("w13", "w2")
        columns = F.pad(layer.get_parameter(name).data.view(torch.uint8), (0, missing // per_byte))
        replace_parameter(layer, name, columns if per_byte == 2 else swizzle(columns))
