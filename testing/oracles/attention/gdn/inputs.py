"""Inputs of a gated delta rule layer that make it tell what it does."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from testing.oracles.arrays import Mask
from testing.oracles.attention.gdn.chunked import near_ties, sizes
from testing.oracles.attention.gdn.gdn import GdnCall, GdnShape
from testing.oracles.rounding import FP32, FloatType, round_to


def random_call(
    rng: np.random.Generator,
    shape: GdnShape,
    kind: FloatType,
    lengths: Sequence[int],
    initial: Sequence[bool],
    slots: Sequence[int] | None = None,
    num_slots: int | None = None,
    spread: float = 1.0,
    blank: int = 0,
) -> GdnCall:
    """Weights as models have them, normal inputs; slots of no request hold NaN.

    spread: deviation of a and b. blank: tokens of each request, its first ones, that are all zero.

    A_log is the logarithm of what is uniform in (1, 16), softplus(dt_bias) spread from 0.001 to
    0.1 evenly in its logarithm (Mamba, arXiv:2312.00752, section 3.6): decays from 0.2 to 0.999.
    A request without initial state has a slot full of NaN as well.
    """
    tokens, heads = sum(lengths), shape.v_heads
    slots = tuple(range(len(lengths))) if slots is None else slots
    count = num_slots or max(slots) + 2
    step = np.exp(rng.uniform(np.log(0.001), np.log(0.1), heads))
    conv_state = np.full((count, shape.channels, shape.width - 1), np.nan)
    state = np.full((count, heads, shape.k_dim, shape.v_dim), np.nan)
    for slot, brings in zip(slots, initial, strict=True):
        if brings:
            conv_state[slot] = round_to(rng.standard_normal(conv_state[slot].shape), kind)
            state[slot] = round_to(rng.standard_normal(state[slot].shape) / 4, FP32)
    token = np.concatenate([np.arange(length) for length in lengths])
    return settled(
        GdnCall(
            shape,
            round_to(rng.standard_normal((shape.channels, shape.width)) / 2, kind),
            round_to(np.log(rng.uniform(1, 16, heads)), FP32),
            # The inverse of softplus.
            round_to(step + np.log(-np.expm1(-step)), FP32),
            tuple(lengths),
            tuple(slots),
            tuple(initial),
            np.where(
                token[:, None] < blank,
                0.0,
                round_to(rng.standard_normal((tokens, shape.channels)), kind),
            ),
            round_to(spread * rng.standard_normal((tokens, heads)), kind),
            round_to(spread * rng.standard_normal((tokens, heads)), kind),
            conv_state,
            state,
            kind,
        ),
        rng,
    )


def settled(call: GdnCall, rng: np.random.Generator) -> GdnCall:
    """The call with inputs drawn anew where the convolution's output is near a tie.

    Then float32 arithmetic rounds it one way only, and the states that follow are known to float32.
    An output that cancels to nearly nothing has a spacing as small as float32's error: no tie.
    """
    for _ in range(20):
        doubtful = np.concatenate([_behind(ties(call, b), call) for b in call.requests])
        if not doubtful.any():
            break
        drawn = round_to(rng.standard_normal(call.mixed.shape), call.kind)
        call = replace(call, mixed=np.where(doubtful, drawn, call.mixed))
    return call


def ties(call: GdnCall, request: int) -> Mask:
    """(length, channels): whether the two roundings of y differ by more than float32's errors."""
    return np.asarray(np.abs(near_ties(call, request)[1]) > 2.0**-18 * sizes(call, request))


def _behind(doubtful: Mask, call: GdnCall) -> Mask:
    """The inputs of those outputs, as far as they are of this call."""
    found = doubtful.copy()
    for back in range(1, call.shape.width):
        found[:-back] |= doubtful[back:]
    return found
