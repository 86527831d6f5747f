"""The two gated activations between the products, and how far a float32 evaluation may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.moe.fp32_functions import sigmoid, sigmoid_error
from testing.oracles.rounding import FP32

_U = FP32.unit_roundoff
ALPHA, LIMIT = 1.702, 7.0


@dataclass(frozen=True)
class Activated:
    """h before its rounding: value, and the most that a float32 evaluation is off by (bound)."""

    value: Float64
    bound: Float64


def silu_and_mul(gate: Float64, up: Float64) -> Activated:
    """gate·sigmoid(gate)·up (SwiGLU, arXiv 2002.05202); any shape.

    Two products after the sigmoid, a rounding each. Below 2^-126 the sigmoid, or the result, may
    be flushed to zero.
    """
    value = gate * sigmoid(gate) * up
    flushed = 2.0**-126 * (1 + np.abs(gate * up))
    return Activated(value, (sigmoid_error(gate) + 2 * _U) * np.abs(value) + flushed)


def swiglu_oai(gate: Float64, up: Float64) -> Activated:
    """gpt-oss: gate' = min(gate, 7), up' = clip(up, ±7), (up' + 1)·gate'·sigmoid(1.702·gate').

    Its reference code is openai/gpt-oss, torch/model.py. The argument of the sigmoid rounds once
    and 1.702 is a float32 constant: 2u·|1.702·gate'| in all. up' + 1 rounds once, which counts
    where the sum is small, and two products a rounding each.
    """
    gate, up = np.minimum(gate, LIMIT), np.clip(up, -LIMIT, LIMIT)
    argument = ALPHA * gate
    swish = gate * sigmoid(argument)
    value = (up + 1) * swish
    relative = sigmoid_error(argument, 2 * _U * np.abs(argument)) + 3 * _U
    flushed = 2.0**-126 * (1 + np.abs(gate * (up + 1)))
    return Activated(value, relative * np.abs(value) + flushed)


ACTIVATIONS = {"silu": silu_and_mul, "swiglu_oai": swiglu_oai}


def spread(
    name: str, gate: Float64, up: Float64, gate_bound: Float64, up_bound: Float64
) -> Activated:
    """h where gate and up are themselves off by at most their bounds.

    h is linear in up, and in gate its slope is at most 1.1 times the factor: the maximum of
    |d(x·sigmoid(x))/dx| is 1.0998, whatever the 1.702 in the argument. So
    |Δh| ≤ 1.1·Δgate·(|factor| + Δup) + |swish|·Δup.
    """
    activated = ACTIVATIONS[name](gate, up)
    if name == "silu":
        factor, swish = np.abs(up), np.abs(gate * sigmoid(gate))
    else:
        factor = np.abs(np.clip(up, -LIMIT, LIMIT) + 1)
        clamped = np.minimum(gate, LIMIT)
        swish = np.abs(clamped * sigmoid(ALPHA * clamped))
    moved = 1.1 * gate_bound * (factor + up_bound) + swish * up_bound
    return Activated(activated.value, activated.bound + moved)
