"""The MLA error model against a kernel that rounds as it says, in float32 and bf16."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.attention.mla.mla import MlaCall, MlaShape, attend
from testing.oracles.attention.mla.noise import MlaArithmetic, mla_noise
from testing.oracles.attention.mla.paged import Paged
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rope.rope import Rope
from testing.oracles.attention.rows.rows import Rows
from testing.oracles.rounding import BF16, FP16, FP32, FloatType, round_to

SHAPE = MlaShape(heads=3, nope=32, v=24, rank=96, rope=Rope(16))
PAGED = Paged((9, 1, 3), (9, 40, 20), np.array([[0, -1, -1], [3, 1, 4], [2, 5, -1]]), 16)


def call_of(seed: int, kind: FloatType, paged: Paged = PAGED, exact: bool = True) -> MlaCall:
    rng = np.random.default_rng(seed)
    tokens, width = sum(paged.query_lens), SHAPE.rank + SHAPE.rope.dim
    weight = rng.standard_normal((SHAPE.heads * 56, SHAPE.rank)) / 8
    positions = [np.arange(k - q, k) for q, k in zip(paged.query_lens, paged.kv_lens, strict=True)]
    return MlaCall(
        SHAPE,
        paged,
        round_to(weight, kind) if exact else weight,
        round_to(1.5 * rng.standard_normal((tokens, SHAPE.heads, 48)), kind),
        round_to(rng.standard_normal((tokens, SHAPE.rank)), kind),
        round_to(rng.standard_normal((tokens, SHAPE.rope.dim)), kind),
        np.concatenate(positions),
        round_to(rng.standard_normal((8, paged.page_size, width)), kind),
    )


def kernel(call: MlaCall, arithmetic: MlaArithmetic, gain: float = 1.0) -> Float64:
    """The declared arithmetic, rounding by rounding; gain: of the scaling, as a fault."""
    kind, shape = arithmetic.kind, call.shape
    out = np.zeros((len(call.q), shape.heads, shape.v))
    for head in call.heads():
        w = call.heads_weight[head.head]
        new = call.paged.query_lens[head.request]
        latents = head.latents.copy()
        latents[-new:, shape.rank :] = round_to(latents[-new:, shape.rank :], kind)
        q = round_to(head.queries, kind)
        if arithmetic.absorbed:
            w = round_to(w, kind)
            q = np.concatenate([round_to(q[:, :32] @ w[:32], kind), q[:, 32:]], axis=1)
            keys, values = latents, latents[:, : shape.rank]
        else:
            up = round_to(latents[:, : shape.rank] @ w.T, kind)
            keys, values = np.concatenate([up[:, :32], latents[:, shape.rank :]], 1), up[:, 32:]
        logits = round_to(gain * shape.scale * (q @ keys.T), FP32)
        logits = np.where(np.isfinite(head.logits), logits, -np.inf)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        o = round_to(p, arithmetic.probabilities) @ values / p.sum(axis=1, keepdims=True)
        if arithmetic.absorbed:
            o = round_to(o, kind) @ w[32:].T
        out[call.paged.rows(head.request), head.head] = round_to(o, kind)
    return out


def rows_of(call: MlaCall, arithmetic: MlaArithmetic, got: Float64) -> Rows:
    requests: Int64 = np.repeat(np.arange(3), call.paged.query_lens)
    return Rows(got, attend(call), mla_noise(call, arithmetic), arithmetic.kind, requests)


ARITHMETICS = [
    MlaArithmetic(BF16, absorbed=True),
    MlaArithmetic(BF16, absorbed=True, probabilities=BF16, weight_exact=False),
    MlaArithmetic(FP16, absorbed=True, probabilities=FP16),
    MlaArithmetic(BF16, absorbed=False),
    MlaArithmetic(BF16, absorbed=False, probabilities=BF16),
]


def ident(arithmetic: MlaArithmetic) -> str:
    path = "absorbed" if arithmetic.absorbed else "unabsorbed"
    return f"{arithmetic.kind.name}-{path}-p_{arithmetic.probabilities.name}"


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=ident)
def test_a_right_kernel_is_within_and_not_far_within(arithmetic: MlaArithmetic) -> None:
    powers = []
    for seed in range(12):
        call = call_of(seed, arithmetic.kind, exact=arithmetic.weight_exact)
        rows = rows_of(call, arithmetic, kernel(call, arithmetic))
        assert not rows.outside().any()
        excess = rows.excess()
        assert not any(family.rejected.any() for family in excess.values())
        powers.append(excess["whole"].ratio[0])
    # The model's power is that which happens, up to p's bound of u²/3 and the uneven ulps.
    assert 0.6 < np.mean(powers) < 1.1


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=ident)
def test_a_scale_off_by_one_percent_is_found(arithmetic: MlaArithmetic) -> None:
    for seed in range(6):
        call = call_of(seed, arithmetic.kind, exact=arithmetic.weight_exact)
        rows = rows_of(call, arithmetic, kernel(call, arithmetic, gain=1.01))
        assert rows.excess()["whole"].rejected.all()


def test_a_single_key_leaves_the_value_alone() -> None:
    paged = Paged((1,), (1,), np.array([[1]]), 16)
    call = replace(call_of(3, BF16, paged), paged=paged)
    arithmetic = MlaArithmetic(BF16, absorbed=False)
    noise = mla_noise(call, arithmetic)
    # v is rounded once in kv_b_proj, and rounding it again changes nothing.
    got = round_to(attend(call), BF16)
    assert (np.abs(got - attend(call)) <= noise.bound).all()
    assert np.median(noise.bound / np.abs(attend(call))) < 2.0**-8


def test_one_wrong_row_is_named() -> None:
    call = call_of(1, BF16)
    got = kernel(call, ARITHMETICS[0])
    got[10, 2] *= 1.05
    excess = rows_of(call, ARITHMETICS[0], got).excess()
    wrong = excess["token"].rejected
    assert [p for p, bad in zip(excess["token"].places, wrong, strict=True) if bad] == [
        "token 0 of request 2"
    ]
