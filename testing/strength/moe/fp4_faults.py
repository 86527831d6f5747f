"""Faults that NVFP4 and MXFP4 experts alone can have: swizzle, fold of global scales, gpt-oss."""

from __future__ import annotations

from typing import Any

import torch

from layers.moe.parameter import ExpertParameter
from layers.moe.quantization import mxfp4, nvfp4
from testing.strength.edits import swizzled
from testing.strength.fault import Fault
from testing.strength.moe.bench import in_code, in_layer
from testing.strength.moe.faults import READ_2, READ_13, cells

_EVERY = cells(0, 1, 2, 3)
_GPT_OSS = ("mxfp4",)


def _tensor(layer: Any, name: str) -> torch.Tensor:
    data: torch.Tensor = layer.get_parameter(name).data
    return data


def largest_alpha(layer: Any) -> None:
    """max() over gate and up of each expert, and block scales as they were."""
    alpha = _tensor(layer, "w13_weight_scale_2")
    alpha.copy_(alpha.amax(1, keepdim=True).expand_as(alpha))


def gate_and_up_alphas_swapped(layer: Any) -> None:
    """Each for the other."""
    alpha = _tensor(layer, "w13_weight_scale_2")
    alpha.copy_(alpha.flip(1))


def largest_alpha_of_experts(layer: Any) -> None:
    """max() over the experts, in the second product."""
    alpha = _tensor(layer, "w2_weight_scale_2")
    alpha.fill_(alpha.max())


def alpha_in_bf16(layer: Any) -> None:
    """Rounded to eight bits."""
    alpha = _tensor(layer, "w13_weight_scale_2")
    alpha.copy_(alpha.bfloat16())


def input_scale_missing(layer: Any) -> None:
    """weight_scale_2 alone."""
    _tensor(layer, "w2_weight_scale_2").div_(_tensor(layer, "w2_input_scale"))


def hidden_by_next_expert(layer: Any) -> None:
    """h quantised by another expert's input scale, of which alpha knows nothing."""
    scale = _tensor(layer, "w2_input_scale")
    scale.copy_(scale.roll(1, 0))


def input_scale_of_first(original: Any) -> Any:
    """The first expert's for all, in place of the largest."""
    return lambda layer: original(layer) * 0 + _tensor(layer, "w13_input_scale")[0, 0]


def not_in_turn(original: Any) -> Any:
    """gpt-oss's rows in turn taken for gate's rows before up's."""

    def split(self: ExpertParameter, loaded: torch.Tensor, shard_id: Any) -> Any:
        kept, self.interleaved = self.interleaved, False
        try:
            return original(self, loaded, shard_id)
        finally:
            self.interleaved = kept

    return split


def up_before_gate(original: Any) -> Any:
    """The even rows taken for up's."""

    def split(self: ExpertParameter, loaded: torch.Tensor, shard_id: Any) -> Any:
        pieces = original(self, loaded, shard_id)
        if not self.interleaved or shard_id is not None:
            return pieces
        other = {"w1": "w3", "w3": "w1"}
        return [(e, other.get(str(shard), shard), piece) for e, shard, piece in pieces]

    return split


_SWIZZLE = [
    Fault(
        name,
        kind,
        in_code(module, "swizzle", wrap),
        check,
        _EVERY,
        (fmt,),
        bench,
        exact=False,
    )
    for fmt, module, suffix in (("nvfp4", nvfp4, ", nvfp4"), ("mxfp4", mxfp4, ", mxfp4"))
    for name, kind, wrap, check, bench in (
        (f"scales not swizzled{suffix}", "swizzle", swizzled.not_swizzled, READ_13, "plain"),
        (f"swizzled twice{suffix}", "swizzle", swizzled.twice, READ_13, "plain"),
        (f"off by one byte{suffix}", "swizzle", swizzled.off_by_one, READ_13, "plain"),
        (f"rows in fours{suffix}", "swizzle", swizzled.rows_in_fours, READ_2, "plain"),
        (f"scale of the next block{suffix}", "placement", swizzled.next_block, READ_13, "plain"),
        (f"scale of the next row{suffix}", "placement", swizzled.next_row, READ_2, "plain"),
    )
]
_PADDING = [
    Fault(name, "padding", in_code(mxfp4, "swizzle", wrap), check, _EVERY, _GPT_OSS, "gpt_oss")
    for name, wrap, check in (
        ("columns padded in front", swizzled.padded_in_front, READ_13),
        ("rows padded above", swizzled.padded_above, READ_13),
        ("columns beyond a tile lost", swizzled.last_columns_lost, READ_13),
        ("rows beyond a tile lost", swizzled.last_rows_lost, READ_13),
    )
]
_ROWS = [
    Fault(
        name,
        "placement",
        in_code(ExpertParameter, "_split", wrap),
        READ_13,
        _EVERY,
        _GPT_OSS,
        "gpt_oss",
        exact=False,
    )
    for name, wrap in (
        ("rows not taken apart", not_in_turn),
        ("up before gate", up_before_gate),
    )
]
_GLOBAL = [
    Fault(name, kind, in_layer(edit), check, places, ("nvfp4",), "plain")
    for name, kind, edit, check, places in (
        ("largest alpha of gate and up", "fold", largest_alpha, READ_13, _EVERY),
        ("alphas of gate and up swapped", "fold", gate_and_up_alphas_swapped, READ_13, _EVERY),
        ("largest alpha of all experts", "fold", largest_alpha_of_experts, READ_2, cells(0, 2, 3)),
        ("alpha in bf16", "scale dtype", alpha_in_bf16, READ_13, _EVERY),
        ("input scale missing in alpha", "fold", input_scale_missing, READ_2, _EVERY),
        ("h by the next expert's input scale", "expert", hidden_by_next_expert, READ_2, _EVERY),
    )
]
_GLOBAL.append(
    Fault(
        "input scale of the first expert",
        "fold",
        in_code(nvfp4, "shared_input_scale", input_scale_of_first),
        READ_13,
        _EVERY,
        ("nvfp4",),
        "plain",
    )
)
FAULTS = [*_SWIZZLE, *_PADDING, *_ROWS, *_GLOBAL]
