"""Online softmax in float32, block by block, as kernels do it: what the error model is tested with.

FlashAttention-2 (arXiv:2307.08691), with splits of the keys merged as in Flash-Decoding.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from testing.oracles.arrays import Float32, Float64
from testing.oracles.attention.dense import Attended
from testing.oracles.rounding import FloatType, round_to


@dataclass(frozen=True)
class Schedule:
    """In which order a kernel takes its keys.

    block: keys at a time; backwards: from the last block on.
    splits: parts of the keys that are attended to apart, then merged.
    base_two: exp2 of logits times log2(e), in place of exp.
    sum_rounded: the denominator is the sum of the probabilities as they were rounded.
    """

    block: int = 64
    backwards: bool = False
    splits: int = 1
    base_two: bool = True
    sum_rounded: bool = False


@dataclass
class _State:
    top: Float32
    total: Float32
    sums: Float32


def simulate(
    attended: Attended, schedule: Schedule, kind: FloatType, probabilities: FloatType | None
) -> Float64:
    """What such a kernel stores, (S, Hq, Dv) values of `kind`, for the attended request."""
    length = attended.logits.shape[2]
    bounds = np.linspace(0, length, schedule.splits + 1).astype(int)
    states = [
        _run(attended, range(start, stop), schedule, probabilities)
        for start, stop in pairwise(bounds)
        if stop > start
    ]
    top = np.maximum.reduce([state.top for state in states])
    scale = _scale(schedule)
    sinks = attended.rule.sinks
    if sinks is not None:
        # exp2 of kernels takes the sink in its own unit.
        sink = (sinks.astype(np.float32) * scale)[:, None]
        top = np.maximum(top, sink)
    total, sums = np.zeros_like(top), np.zeros_like(states[0].sums)
    for state in states:
        weight = _exp(state.top - top, schedule)
        total, sums = total + state.total * weight, sums + state.sums * weight[..., None]
    if sinks is not None:
        total = total + _exp(sink - top, schedule)
    output: Float64 = (sums / total[..., None]).astype(np.float64).transpose(1, 0, 2)
    return round_to(output, kind)


def _scale(schedule: Schedule) -> np.float32:
    return np.float32(np.log2(np.e)) if schedule.base_two else np.float32(1)


def _exp(x: Float32, schedule: Schedule) -> Float32:
    with np.errstate(invalid="ignore"):
        value: Float32 = np.exp2(x) if schedule.base_two else np.exp(x)
    return np.where(np.isnan(value), np.float32(0), value)


def _run(
    attended: Attended, keys: range, schedule: Schedule, probabilities: FloatType | None
) -> _State:
    rows = attended.logits.shape[:2]
    values = attended.v.shape[2]
    f = np.float32
    state = _State(np.full(rows, -np.inf, f), np.zeros(rows, f), np.zeros((*rows, values), f))
    starts = list(keys[:: schedule.block])
    for start in reversed(starts) if schedule.backwards else starts:
        block = slice(start, min(start + schedule.block, keys.stop))
        _take(state, attended, block, schedule, probabilities)
    return state


def _take(
    state: _State,
    attended: Attended,
    block: slice,
    schedule: Schedule,
    probabilities: FloatType | None,
) -> None:
    f, cap = np.float32, np.float32(attended.rule.soft_cap)
    k = attended.k[:, block].astype(f).transpose(0, 2, 1)
    logits = (attended.q.astype(f) @ k) * f(attended.rule.scaling)
    if cap:
        logits = cap * np.tanh(logits / cap)
    logits = np.where(np.isfinite(attended.logits[..., block]), logits, f(-np.inf))
    logits = logits * _scale(schedule)
    top = np.maximum(state.top, logits.max(axis=2))
    # A block of which nothing is seen leaves the maximum at -inf.
    safe = np.where(np.isfinite(top), top, f(0))
    weights = _exp(logits - safe[..., None], schedule)
    rounded = weights
    if probabilities is not None:
        rounded = round_to(weights.astype(np.float64), probabilities).astype(f)
    fade = _exp(state.top - safe, schedule)
    state.total = state.total * fade + (rounded if schedule.sum_rounded else weights).sum(axis=2)
    state.sums = state.sums * fade[..., None] + rounded @ attended.v[:, block].astype(f)
    state.top = top
