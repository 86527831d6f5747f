"""Faults that a MoE layer of any format can have: of its router, its experts and its sum."""

from __future__ import annotations

from typing import Any

import torch

from testing.moe.faults.fault import Fault, around, on_parameter, other_ids, other_weights, swapped


def rounded_sum(original: Any, down: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """In the layer's dtype after each expert."""
    parts = down.view(*weights.shape, -1) * weights.unsqueeze(-1)
    dtype = original(down, weights).dtype
    total = torch.zeros_like(parts[:, 0], dtype=dtype)
    for part in parts.unbind(1):
        total = total + part.to(dtype)
    return total


def twice_rounded(original: Any, gate_up: torch.Tensor) -> torch.Tensor:
    """gate and up in 16 bits before they are multiplied."""
    h: torch.Tensor = original(gate_up.bfloat16().float())
    return h


def halves_swapped(original: Any, gate_up: torch.Tensor) -> torch.Tensor:
    """[up; gate] for [gate; up]."""
    h: torch.Tensor = original(gate_up.roll(gate_up.shape[1] // 2, 1))
    return h


def nan_swallowed(original: Any, down: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Taken for zero."""
    total: torch.Tensor = original(down.nan_to_num(0.0), weights.nan_to_num(0.0))
    return total


def pairs_of_the_next_token(original: Any, *args: Any) -> torch.Tensor:
    """A row of the first product goes to the wrong pair."""
    gate_up: torch.Tensor = original(*args)
    return gate_up.roll(1, 0)


ANY_METHOD = [
    Fault("weights that are not renormalised", other_weights(lambda w: w * 0.9), "routing"),
    Fault("weights off by a millionth of 20", other_weights(lambda w: w * (1 + 2e-5)), "routing"),
    Fault("weights of the other choice", other_weights(lambda w: w.flip(1)), "routing"),
    Fault("the next expert", other_ids(lambda ids: (ids + 1) % 4), "routing"),
    Fault(
        "the first choice twice",
        other_ids(lambda ids: ids[:, :1].expand_as(ids).contiguous()),
        "routing",
    ),
    Fault("gate and up change places", around("activate", halves_swapped), "activation"),
    Fault("gate and up rounded", around("activate", twice_rounded), "activation"),
    Fault(
        "h half an ulp small",
        around("activate", lambda original, g: original(g).mul(1 - 2.0**-8)),
        "activation",
    ),
    Fault("rows of other pairs", around("multiply_w13", pairs_of_the_next_token), "gate_up"),
    Fault("a sum in 16 bits", around("combine", rounded_sum), "combine"),
    Fault(
        "weights of 1",
        around("combine", lambda original, d, w: original(d, torch.ones_like(w))),
        "combine",
    ),
    Fault("a NaN swallowed", around("combine", nan_swallowed), "containment"),
    Fault(
        "w13 of two experts", on_parameter("w13_weight", swapped(0, 1)), "readback of gate and up"
    ),
    Fault("w2 of two experts", on_parameter("w2_weight", swapped(2, 3)), "readback of down"),
    Fault(
        "another expert's bias", on_parameter("w13_bias", swapped(0, 3)), "readback of gate and up"
    ),
    Fault("a bias left out", on_parameter("w2_bias", lambda t: t[1].zero_()), "readback of down"),
]
