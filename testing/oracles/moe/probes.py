"""Inputs that make an MoE layer tell what it holds and what it does."""

from __future__ import annotations

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.formats import ActivationRule
from testing.oracles.probes import natural
from testing.oracles.rounding import BF16, FloatType, round_to

_GAP = 0.25


def natural_without_ties(
    rng: np.random.Generator, rule: ActivationRule, m: int, k: int, kind: FloatType = BF16
) -> Float64:
    """(m, k) normal activations of RMS 1/64 to 1, none near a tie of the quantiser.

    A value of a half of the largest is a tie of an integer format, and with the few bits of bf16 a
    common one. Where one value of x̂ is open, all that follows from it is.
    """
    x = round_to(natural(rng, m, k, kind) / 8, kind)
    for _ in range(20):
        tied = rule.encode(x).near_tie
        if not tied.any():
            return x
        x = np.where(tied, round_to(natural(rng, m, k, kind) / 32, kind), x)
    raise ValueError(f"{tied.sum()} of {tied.size} values of x are near ties after 20 draws")


def router_logits(rng: np.random.Generator, tokens: int, experts: int) -> Float64:
    """(T, E) logits in a random order, a quarter apart at least, exact in bf16 up to 32 experts.

    The choice is then beyond doubt, and the weights of a token's experts differ.
    """
    ranks = np.argsort(rng.random((tokens, experts)), axis=1)
    return _GAP * ranks - _GAP * experts / 2


def logits_to(tokens: int, experts: int, wanted: list[int], apart: float = 0.0) -> Float64:
    """(T, E) logits that lead every token to the experts `wanted`, in that order.

    apart: lifts these and lowers the others, so that no small correction bias matters.
    """
    logits = np.tile(-_GAP * np.arange(1.0, experts + 1) - apart, (tokens, 1))
    logits[:, wanted] = _GAP * np.arange(len(wanted), 0, -1) + apart
    return logits


def logits_without(
    rng: np.random.Generator, tokens: int, experts: int, unwanted: list[int]
) -> Float64:
    """(T, E) logits that lead no token to the experts `unwanted`."""
    logits = router_logits(rng, tokens, experts)
    logits[:, unwanted] -= _GAP * experts
    return logits
