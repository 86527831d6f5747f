"""The recurrence against its dense matrix form, scalar sums, and states worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float32
from testing.oracles.attention.gdn.chunked import Rounding, chunked, near_ties, sizes
from testing.oracles.attention.gdn.gdn import GdnCall, GdnShape, delta_rule, silu
from testing.oracles.attention.gdn.inputs import random_call, ties
from testing.oracles.rounding import BF16, FP16, FloatType, round_to

SHAPE = GdnShape(k_heads=2, v_heads=4, k_dim=12, v_dim=10)


def call_of(seed: int = 0) -> GdnCall:
    lengths, initial = (67, 1, 130, 2), (False, True, True, True)
    return random_call(np.random.default_rng(seed), SHAPE, BF16, lengths, initial, (3, 0, 5, 1), 7)


@pytest.mark.parametrize("chunk", [1, 7, 64, 256])
def test_it_is_its_chunked_and_its_dense_form(chunk: int) -> None:
    # A chunk that holds the whole request is the dense form: one triangular system, one product.
    call = call_of()
    answer = delta_rule(call)
    assert np.isfinite(answer.output).all()
    for b in call.requests:
        output, state = chunked(call, b, Rounding(chunk=chunk), np.random.default_rng(0), 0)
        np.testing.assert_allclose(output[0], answer.output[call.rows(b)], rtol=0, atol=1e-14)
        np.testing.assert_allclose(state[0], answer.state[b], rtol=0, atol=1e-14)


def test_decode_after_extend_is_extend_of_all() -> None:
    whole = call_of(1)
    answer = delta_rule(whole)
    for b, cut in ((0, 64), (2, 1), (2, 129), (3, 1)):
        start = whole.rows(b).start
        parts = [slice(start, start + cut), slice(start + cut, whole.rows(b).stop)]
        call = replace(whole, lengths=(cut,), slots=(whole.slots[b],), initial=(whole.initial[b],))
        outputs = []
        for part in parts:
            length = part.stop - part.start
            call = replace(
                call, lengths=(length,), mixed=whole.mixed[part], a=whole.a[part], b=whole.b[part]
            )
            got = delta_rule(call)
            outputs.append(got.output)
            call = replace(
                call, slots=(0,), initial=(True,), state=got.state, conv_state=got.conv_state
            )
        together = np.concatenate(outputs)
        np.testing.assert_allclose(together, answer.output[whole.rows(b)], rtol=0, atol=1e-15)
        np.testing.assert_allclose(got.state[0], answer.state[b], rtol=0, atol=1e-15)
        np.testing.assert_array_equal(got.conv_state[0], answer.conv_state[b])


def test_the_convolution_is_numpys_and_its_state_the_last_inputs() -> None:
    call = call_of(2)
    answer = delta_rule(call)
    x = np.concatenate([call.conv_state[5], call.mixed[call.rows(2)].T], axis=1)
    for c in (0, 17, SHAPE.channels - 1):
        want = np.convolve(x[c], call.conv[c][::-1], mode="valid")
        np.testing.assert_allclose(call.convolved(2)[:, c], want, rtol=1e-13)
    np.testing.assert_array_equal(answer.conv_state[2], x[:, -3:])
    # One token on top of a state of three.
    one = np.concatenate([call.conv_state[0][:, 1:], call.mixed[call.rows(1)].T], axis=1)
    np.testing.assert_array_equal(answer.conv_state[1], one)
    # Silu has its minimum of -0.278 near -1.278, and is x for large x.
    assert silu(np.array([-1.2785, 0.0, 40.0])) == pytest.approx([-0.27846, 0.0, 40.0], abs=1e-5)


def scalar_head(call: GdnCall, h: int) -> float:
    """Element (0, 0) of value head h's output at the last token of request 0, sum by sum."""
    key = h // 2
    y = round_to(silu(call.convolved(0)), BF16)
    state = [[0.0] * 10 for _ in range(12)]
    for t in range(67):
        q = y[t, key * 12 : key * 12 + 12] / np.sqrt(
            sum(y[t, key * 12 : key * 12 + 12] ** 2) + 1e-6
        )
        k = y[t, 24 + key * 12 : 36 + key * 12]
        k = k / np.sqrt(sum(k**2) + 1e-6)
        v = y[t, 48 + h * 10 : 58 + h * 10]
        rate = np.exp(call.a_log[h]) * np.log1p(np.exp(call.a[t, h] + call.dt_bias[h]))
        beta = 1 / (1 + np.exp(-call.b[t, h]))
        for j in range(10):
            for i in range(12):
                state[i][j] *= np.exp(-rate)
            u = beta * (v[j] - sum(state[i][j] * k[i] for i in range(12)))
            for i in range(12):
                state[i][j] += k[i] * u
    return float(sum(state[i][0] * q[i] for i in range(12)) / np.sqrt(12))


@pytest.mark.parametrize("head", range(4))
def test_scalar_by_scalar(head: int) -> None:
    call = call_of(3)
    assert delta_rule(call).output[66, head, 0] == pytest.approx(scalar_head(call, head), rel=1e-12)


@pytest.mark.parametrize("kind", [BF16, FP16], ids=lambda kind: kind.name)
def test_settled_inputs_leave_no_tie(kind: FloatType) -> None:
    call = random_call(np.random.default_rng(4), SHAPE, kind, (200,), (False,))
    assert not ties(call, 0).any()
    # Where nothing was done about them there are some: two 24-bit errors wide, of 2^8 or 2^11.
    moved = call.mixed + 0.01 * np.random.default_rng(5).standard_normal(call.mixed.shape)
    several = [ties(replace(call, mixed=round_to(moved * s, kind)), 0).sum() for s in (1, 2, 3)]
    assert sum(several) > 0


def test_float32_rounds_as_declared_where_there_is_no_tie() -> None:
    call = random_call(np.random.default_rng(5), SHAPE, BF16, (200,), (False,))
    x, conv = call.history(0).astype(np.float32), call.conv.astype(np.float32)
    z: Float32 = np.zeros((200, SHAPE.channels), np.float32)
    for w in (2, 0, 3, 1):
        z += conv[:, w] * x[w : w + 200]
    y = (z * (np.float32(1) / (np.float32(1) + np.exp(-z)))).astype(np.float64)
    rounded, other = near_ties(call, 0)
    differs = round_to(y, BF16) != rounded
    assert (np.abs(round_to(y, BF16) - rounded) <= np.abs(other)).all()
    assert (np.abs(other[differs]) < 2.0**-18 * sizes(call, 0)[differs]).all()
