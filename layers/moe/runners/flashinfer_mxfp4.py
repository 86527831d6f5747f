"""MXFP4 experts on sm100 and sm103, by FlashInfer's fused `trtllm_fp4_block_scale_routed_moe`.

**This has never run: no sm100 was at hand.** Arguments, shapes and layouts are those that the
sources of flashinfer 0.6.13 ask for (fused_moe/core.py, csrc/trtllm_fused_moe_kernel_launcher.cu;
rows are ordered by its `get_w2_permute_indices_with_cache`); 0.7.4 takes the same arguments. The
kernels are binaries that FlashInfer downloads, or takes from the package flashinfer-cubin.

Post-load makes, and puts in place of what was loaded:

- H and I padded with zeros to multiples of 256;
- rows of w13 in turn, up first, then gate; then rows of w13 and of w2 in the order in which a tile
  of 128 rows leaves the tensor cores;
- block scales in the same order of rows, swizzled after that, float8_e4m3fn by name;
- `w13_bias`, `w2_bias` float32, in the same order. Where ranks split an expert, `w2_bias` is zero
  on all but the first, as their parts add up;
- with activation swiglu_oai, the constants 1.702, 1 and 7 an expert.

Where it differs from the staged runners: the choices' weights are rounded to bfloat16, h and each
expert's output are bfloat16, summed in float32.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from layers.copyable import replace_parameter
from layers.kernels.fp4.swizzle import swizzle
from layers.kernels.moe.activation import SWIGLU_OAI_ALPHA, SWIGLU_OAI_LIMIT
from layers.moe.quantization.base import optional
from layers.moe.quantization.staged import StagedMoEMethod
from layers.moe.topk import TopKOutput
from layers.sharding import ceil_div

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE

SIZE_MULTIPLE = 256
EPILOGUE_ROWS = 128
# RoutingMethodType.Renormalize; not read where experts are chosen already.
ROUTING_METHOD = 1
GROUP = 32


def prepare(method: StagedMoEMethod, layer: FusedMoE) -> None:
    """Brings the layer's parameters into the layout above and sets `method.run`."""
    hidden, rows = (_padded(s) for s in (layer.experts.hidden_size, _own_rows(layer)))
    for suffix, per_byte in (("weight", 2), ("weight_scale", GROUP)):
        w13 = layer.get_parameter(f"w13_{suffix}").data
        w13 = _in_turn(_pad(w13, 1, 0, hidden // per_byte), rows)
        w2 = _pad(layer.get_parameter(f"w2_{suffix}").data, 1, hidden, rows // per_byte)
        for name, value in ((f"w13_{suffix}", w13), (f"w2_{suffix}", w2)):
            value = value[:, _order(value[0])].contiguous()
            if suffix == "weight_scale":
                value = swizzle(value).view(torch.float8_e4m3fn)
            replace_parameter(layer, name, value)
    if layer.has_bias:
        _replace_biases(layer, hidden, rows)
    constants = dict.fromkeys(("gemm1_alpha", "gemm1_beta", "gemm1_clamp_limit"))
    if layer.activation == "swiglu_oai":
        values = (SWIGLU_OAI_ALPHA, 1.0, SWIGLU_OAI_LIMIT)
        device = layer.get_parameter("w13_weight").device
        experts = layer.experts.experts.size
        constants = {
            name: torch.full((experts,), value, dtype=torch.float32, device=device)
            for name, value in zip(constants, values, strict=True)
        }
    method.run = partial(run, rows=rows, hidden=hidden, constants=constants)


def run(
    layer: FusedMoE,
    x: torch.Tensor,
    topk: TopKOutput,
    *,
    rows: int,
    hidden: int,
    constants: dict[str, Any],
) -> torch.Tensor:
    """x (T, H) bfloat16 -> this rank's part of the output, (T, H).

    Args:
        layer, x, topk: as `MoEMethodBase.apply` has them.
        rows, hidden: I and H as padded.
        constants: the activation's.
    """
    from flashinfer.fused_moe import trtllm_fp4_block_scale_routed_moe

    experts = layer.experts.experts
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    with torch.cuda.device_of(x):
        trtllm_fp4_block_scale_routed_moe(
            topk_ids=(topk.ids, topk.weights.to(torch.bfloat16)),
            routing_bias=None,
            hidden_states=F.pad(x, (0, hidden - x.shape[1])).contiguous(),
            hidden_states_scale=None,
            gemm1_weights=layer.get_parameter("w13_weight").data,
            gemm1_weights_scale=layer.get_parameter("w13_weight_scale").data,
            gemm1_bias=optional(layer, "w13_bias"),
            gemm2_weights=layer.get_parameter("w2_weight").data,
            gemm2_weights_scale=layer.get_parameter("w2_weight_scale").data,
            gemm2_bias=optional(layer, "w2_bias"),
            output1_scale_scalar=None,
            output1_scale_gate_scalar=None,
            output2_scale_scalar=None,
            num_experts=experts.total,
            top_k=topk.ids.shape[1],
            n_group=None,
            topk_group=None,
            intermediate_size=rows,
            local_expert_offset=experts.start,
            local_num_experts=experts.size,
            routed_scaling_factor=None,
            routing_method_type=ROUTING_METHOD,
            output=out,
            **constants,
        )
    return out


def _own_rows(layer: FusedMoE) -> int:
    return layer.experts.intermediate_size


def _padded(size: int) -> int:
    return ceil_div(size, SIZE_MULTIPLE) * SIZE_MULTIPLE


def _pad(tensor: torch.Tensor, dim: int, rows: int, columns: int = 0) -> torch.Tensor:
    """Zeros at the end of dimension `dim` up to `rows`, and of the next one up to `columns`."""
    lacks = [max(rows - tensor.shape[dim], 0)]
    if columns:
        lacks.insert(0, columns - tensor.shape[dim + 1])
    return F.pad(tensor, [edge for lack in lacks for edge in (0, lack)])


def _in_turn(w13: torch.Tensor, rows: int) -> torch.Tensor:
    """[gate; up] (E, 2I, …) -> (E, 2 · rows, …), up and gate in turn, padded."""
    gate, up = (F.pad(h, _rows_edge(h, rows)) for h in w13.chunk(2, dim=1))
    return torch.stack([up, gate], dim=2).flatten(1, 2)


def _rows_edge(half: torch.Tensor, rows: int) -> list[int]:
    return [0, 0] * (half.dim() - 2) + [0, rows - half.shape[1]]


def _order(matrix: torch.Tensor) -> torch.Tensor:
    """For each row of the result, the row of `matrix` (N, …) that goes there."""
    from flashinfer.fused_moe.core import get_w2_permute_indices_with_cache

    # Rows alone decide, whether they hold weights, scales or a bias.
    rows = matrix.reshape(matrix.shape[0], -1)
    order: torch.Tensor = get_w2_permute_indices_with_cache({}, rows, EPILOGUE_ROWS)
    return order.to(matrix.device)


def _replace_biases(layer: FusedMoE, hidden: int, rows: int) -> None:
    w13 = _in_turn(layer.get_parameter("w13_bias").data.float(), rows)
    w2 = _pad(layer.get_parameter("w2_bias").data.float(), 1, hidden)
    if layer.experts.parallel.tp_rank:
        w2 = torch.zeros_like(w2)
    for name, value in (("w13_bias", w13), ("w2_bias", w2)):
        replace_parameter(layer, name, value[:, _order(value[0])].contiguous())
