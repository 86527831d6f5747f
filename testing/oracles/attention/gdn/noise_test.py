"""The GDN error model against float32 and bf16 arithmetic that rounds for good."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float32, Float64
from testing.oracles.attention.gdn.chunked import Errors, Rounding, near_ties, scan
from testing.oracles.attention.gdn.gdn import GdnCall, GdnShape, delta_rule
from testing.oracles.attention.gdn.inputs import random_call
from testing.oracles.attention.gdn.noise import gdn_noise
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rows.rows import Rows
from testing.oracles.rounding import BF16, FP32, round_to

SHAPE = GdnShape(k_heads=2, v_heads=4, k_dim=32, v_dim=24)
REQUESTS: Int64 = np.repeat([0, 1], [65, 130])


def call_of(seed: int) -> GdnCall:
    return random_call(np.random.default_rng(seed), SHAPE, BF16, (65, 130), (True, False))


class RoundingForGood(Errors):
    """Half to even, in place of errors drawn at random."""

    def stored(self, x: Float64) -> Float64:
        return round_to(x, self.rounding.kind or FP32)

    def product(self, x: Float64, y: Float64) -> Float64:
        return round_to(x @ y, FP32)


def chunk_kernel(call: GdnCall, rounding: Rounding) -> tuple[Float64, Float64]:
    errors = RoundingForGood(rounding, np.random.default_rng(0), on=False)
    parts = [scan(call, b, near_ties(call, b)[0][None], errors) for b in call.requests]
    output = np.concatenate([o[0] for o, _ in parts])
    return round_to(output, BF16), np.concatenate([s for _, s in parts])


def float32_kernel(call: GdnCall) -> tuple[Float64, Float64]:
    """The recurrence in numpy's float32."""
    outputs, states = [], []
    for b in call.requests:
        q, k, v = (x.astype(np.float32) for x in call.heads(near_ties(call, b)[0]))
        s: Float32 = call.start(b).astype(np.float32)
        rows = call.rows(b)
        g, beta = (x[rows].astype(np.float32) for x in (call.decay, call.beta))
        for t in range(call.lengths[b]):
            s = np.exp(g[t])[:, None, None] * s
            u = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", s, k[t]))
            s = s + k[t][:, :, None] * u[:, None, :]
            outputs.append(np.einsum("hkv,hk->hv", s, q[t]).astype(np.float64))
        states.append(s.astype(np.float64))
    return round_to(np.stack(outputs), BF16), np.stack(states)


def powers(call: GdnCall, rounding: Rounding, got: tuple[Float64, Float64]) -> list[float]:
    """Of outputs and of states: power seen over power expected; nothing may be beyond."""
    answer = delta_rule(call)
    noise = gdn_noise(call, answer, rounding)
    shape = noise.state.bound.shape
    found = []
    for rows in (
        Rows(got[0], answer.output, noise.output, BF16, REQUESTS),
        Rows(got[1].reshape(shape), answer.state.reshape(shape), noise.state, FP32, np.arange(2)),
    ):
        assert not rows.outside().any()
        excess = rows.excess()
        assert not any(family.rejected.any() for family in excess.values())
        found.append(float(excess["whole"].ratio[0]))
    return found


def test_float32_is_within_and_not_far_within() -> None:
    for seed in range(4):
        call = call_of(seed)
        output, state = powers(call, Rounding(chunk=1), float32_kernel(call))
        assert 0.8 < output < 1.2
        assert 0.01 < state < 1


def test_sixteen_bit_chunks_are_within_and_not_far_within() -> None:
    for seed in range(4):
        call = call_of(seed)
        output, state = powers(call, Rounding(BF16), chunk_kernel(call, Rounding(BF16)))
        assert 0.35 < output < 1.2
        assert 0.2 < state < 1.2


@pytest.mark.parametrize(("rounding", "gain"), [(Rounding(chunk=1), 1.001), (Rounding(BF16), 1.1)])
def test_a_decay_that_is_off_is_found(rounding: Rounding, gain: float) -> None:
    call = call_of(7)
    wrong = replace(call, a_log=call.a_log + np.log(gain))
    got = float32_kernel(wrong) if rounding.kind is None else chunk_kernel(wrong, rounding)
    answer = delta_rule(call)
    noise = gdn_noise(call, answer, rounding)
    shape = noise.state.bound.shape
    states = Rows(
        got[1].reshape(shape), answer.state.reshape(shape), noise.state, FP32, np.arange(2)
    )
    assert states.excess()["whole"].rejected.all()


def test_eight_replicas_are_enough_for_a_long_text() -> None:
    call = random_call(np.random.default_rng(9), SHAPE, BF16, (3000,), (False,))
    rounding = Rounding(BF16)
    answer = delta_rule(call)
    noise = gdn_noise(call, answer, rounding, replicas=8)
    got, _ = chunk_kernel(call, rounding)
    requests: Int64 = np.zeros(3000, np.int64)
    rows = Rows(got, answer.output, noise.output, BF16, requests)
    assert not rows.outside().any()
    assert not rows.excess()["token"].rejected.any()
