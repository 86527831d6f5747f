"""Faults of what happens between choosing experts and the output, stage by stage.

Each takes the stage and its arguments: activate(gate_up), combine(y, weights), and the products
multiply(codes, scales, weight, weight scale, bias, routing).
"""

from __future__ import annotations

from typing import Any

import torch


def _halves(gate_up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    half = gate_up.shape[1] // 2
    return gate_up[:, :half], gate_up[:, half:]


def gate_for_up(activate: Any, gate_up: torch.Tensor) -> Any:
    """The activation of up, times gate."""
    gate, up = _halves(gate_up)
    return activate(torch.cat([up, gate], dim=1))


def gelu(activate: Any, gate_up: torch.Tensor) -> Any:
    """Another activation."""
    gate, up = _halves(gate_up)
    return (torch.nn.functional.gelu(gate) * up).to(activate(gate_up).dtype)


def activation_rounded(activate: Any, gate_up: torch.Tensor) -> Any:
    """The activation in bf16, then the product: h is rounded twice."""
    gate, up = _halves(gate_up)
    dtype = activate(gate_up).dtype
    return torch.nn.functional.silu(gate).to(dtype) * up.to(dtype)


def gate_up_rounded(activate: Any, gate_up: torch.Tensor) -> Any:
    """The first product is stored in bf16."""
    return activate(gate_up.bfloat16().float())


def _swiglu(gate: torch.Tensor, up: torch.Tensor, alpha: float = 1.702, one: float = 1.0) -> Any:
    return (up + one) * gate * torch.sigmoid(alpha * gate)


def not_clamped(activate: Any, gate_up: torch.Tensor) -> Any:
    """swiglu_oai without its limit."""
    return _swiglu(*_halves(gate_up)).to(activate(gate_up).dtype)


def clamp_on_both_sides(activate: Any, gate_up: torch.Tensor) -> Any:
    """The gate is clamped from below as well."""
    gate, up = _halves(gate_up)
    return _swiglu(gate.clamp(-7, 7), up.clamp(-7, 7)).to(activate(gate_up).dtype)


def up_clamped_above_only(activate: Any, gate_up: torch.Tensor) -> Any:
    """The limits of gate and up exchanged."""
    gate, up = _halves(gate_up)
    return _swiglu(gate.clamp(-7, 7), up.clamp(max=7)).to(activate(gate_up).dtype)


def alpha_of_one(activate: Any, gate_up: torch.Tensor) -> Any:
    """silu's slope in place of 1.702."""
    gate, up = _halves(gate_up)
    return _swiglu(gate.clamp(max=7), up.clamp(-7, 7), 1.0).to(activate(gate_up).dtype)


def one_missing(activate: Any, gate_up: torch.Tensor) -> Any:
    """up in place of up + 1."""
    gate, up = _halves(gate_up)
    return _swiglu(gate.clamp(max=7), up.clamp(-7, 7), one=0.0).to(activate(gate_up).dtype)


def weights_twice(combine: Any, y: torch.Tensor, weights: torch.Tensor) -> Any:
    """Squared."""
    return combine(y, weights * weights)


def weights_missing(combine: Any, y: torch.Tensor, weights: torch.Tensor) -> Any:
    """A plain sum."""
    return combine(y, torch.ones_like(weights))


def down_rounded(combine: Any, y: torch.Tensor, weights: torch.Tensor) -> Any:
    """The second product is stored in bf16."""
    return combine(y.bfloat16().float(), weights)


def sum_in_bf16(combine: Any, y: torch.Tensor, weights: torch.Tensor) -> Any:
    """Choices are added one after the other in bf16."""
    choices = y.view(*weights.shape, -1)
    out = combine(y, weights) * 0
    for k in range(weights.shape[1]):
        out = out + (choices[:, k] * weights[:, k : k + 1]).to(out.dtype)
    return out


def last_choice_dropped(combine: Any, y: torch.Tensor, weights: torch.Tensor) -> Any:
    """One expert too few."""
    kept = weights.clone()
    kept[:, -1] = 0
    return combine(y, kept)


def tokens_shifted(combine: Any, y: torch.Tensor, weights: torch.Tensor) -> Any:
    """Rows of pairs are taken for the next token's."""
    return combine(y.roll(1, 0), weights)


def bias_missing(multiply: Any, codes: Any, scales: Any, w: Any, ws: Any, bias: Any, r: Any) -> Any:
    """Not added."""
    return multiply(codes, scales, w, ws, None, r)


def bias_twice(multiply: Any, codes: Any, scales: Any, w: Any, ws: Any, bias: Any, r: Any) -> Any:
    """As when each of two ranks adds it."""
    return multiply(codes, scales, w, ws, bias * 2, r)


def bias_of_next(multiply: Any, codes: Any, scales: Any, w: Any, ws: Any, bias: Any, r: Any) -> Any:
    """Of another expert."""
    return multiply(codes, scales, w, ws, bias.roll(1, 0), r)


def bias_halves_swapped(
    multiply: Any, codes: Any, scales: Any, w: Any, ws: Any, bias: Any, r: Any
) -> Any:
    """up's for gate."""
    return multiply(codes, scales, w, ws, bias.roll(bias.shape[1] // 2, 1), r)


def last_block_dropped(multiply: Any, codes: torch.Tensor, *rest: Any) -> Any:
    """The last eighth of K."""
    whole = codes.clone()
    view = whole.view(torch.uint8) if whole.element_size() == 1 else whole
    view[:, -(view.shape[1] // 8) :] = 0
    return multiply(whole, *rest)


def one_pair_unwritten(multiply: Any, *args: Any) -> Any:
    """The last row keeps what the memory held."""
    out = multiply(*args)
    poisoned = torch.empty_like(out)
    poisoned[:-1] = out[:-1]
    return poisoned
