"""The MLA oracle against plain multi-head attention, and its pages against positions by hand."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.attention.mla.mla import MlaCall, MlaShape, attend, by_scale
from testing.oracles.attention.mla.paged import Paged
from testing.oracles.attention.rope.rope import Rope, rotate

SHAPE = MlaShape(heads=3, nope=8, v=6, rank=12, rope=Rope(4))


def call_of(paged: Paged, seed: int = 0) -> MlaCall:
    rng = np.random.default_rng(seed)
    tokens = sum(paged.query_lens)
    positions = [np.arange(k - q, k) for q, k in zip(paged.query_lens, paged.kv_lens, strict=True)]
    pages = int(paged.page_table.max()) + 2
    cache = np.full((pages, paged.page_size, 16), np.nan)
    for b in paged.requests:
        prefix = paged.slots(b)[: paged.kv_lens[b] - paged.query_lens[b]]
        cache.reshape(-1, 16)[prefix] = rng.standard_normal((len(prefix), 16))
    return MlaCall(
        SHAPE,
        paged,
        rng.standard_normal((SHAPE.heads * 14, 12)),
        rng.standard_normal((tokens, SHAPE.heads, 12)),
        rng.standard_normal((tokens, 12)),
        rng.standard_normal((tokens, 4)),
        np.concatenate(positions),
        cache,
    )


def plain(call: MlaCall, b: int) -> Float64:
    """One request as multi-head attention over expanded keys and values, a query at a time."""
    paged, shape = call.paged, call.shape
    new = paged.rows(b)
    rows = [call.cache[paged.page_table[b, p // paged.page_size], p % paged.page_size]
            for p in range(paged.kv_lens[b] - paged.query_lens[b])]  # fmt: skip
    turned = rotate(call.k_pe[new], call.positions[new], shape.rope)
    rows += list(np.concatenate([call.latent[new], turned], axis=1))
    out = np.zeros((paged.query_lens[b], shape.heads, shape.v))
    for i, t in enumerate(range(new.start, new.stop)):
        last = paged.kv_lens[b] - paged.query_lens[b] + i
        for h in range(shape.heads):
            w = call.weight[h * 14 : (h + 1) * 14]
            q_pe = rotate(call.q[t : t + 1, h, 8:], call.positions[t : t + 1], shape.rope)[0]
            keys = list(range(paged.kv_lens[b]))
            if paged.trees is None:
                keys = keys[: last + 1]
            else:
                prefix = paged.kv_lens[b] - paged.query_lens[b]
                keys = [j for j in keys if j < prefix or paged.trees[b, i, j - prefix]]
            logits = [
                (call.q[t, h, :8] @ (w[:8] @ rows[j][:12]) + q_pe @ rows[j][12:]) / np.sqrt(12)
                for j in keys
            ]
            p = np.exp(logits) / np.sum(np.exp(logits))
            out[i, h] = sum(pj * (w[8:] @ rows[j][:12]) for pj, j in zip(p, keys, strict=True))
    return out


TREE = np.array([[[1, 0, 0], [1, 1, 0], [1, 0, 1]], [[1, 0, 0], [0, 1, 0], [0, 1, 1]]], bool)


@pytest.mark.parametrize(
    "paged",
    [
        Paged((3, 1, 2), (3, 6, 7), np.array([[4, -1, -1], [1, 5, -1], [7, 3, -1]]), 4),
        Paged((1, 1), (1, 9), np.array([[2, 9, 9], [6, 0, 3]]), 4),
        Paged((0, 2), (3, 2), np.array([[0], [1]]), 4),
        Paged((3, 3), (3, 8), np.array([[1, -1], [2, 0]]), 4, TREE),
    ],
    ids=["extend", "decode", "no query", "tree"],
)
def test_it_is_multi_head_attention_with_expanded_keys_and_values(paged: Paged) -> None:
    call = call_of(paged)
    got = attend(call)
    assert np.isfinite(got).all()
    for b in paged.requests:
        np.testing.assert_allclose(got[paged.rows(b)], plain(call, b), rtol=1e-12, atol=1e-13)


def test_slots_follow_the_page_table() -> None:
    paged = Paged((2, 1), (6, 3), np.array([[5, 2, -1], [0, -1, -1]]), 4)
    assert paged.slots(0).tolist() == [20, 21, 22, 23, 8, 9]
    assert paged.new_slots().tolist() == [8, 9, 2]
    assert paged.visible(0).tolist() == [[True] * 5 + [False], [True] * 6]


def test_kv_b_proj_may_see_other_latents_than_the_cache_gets() -> None:
    call = call_of(Paged((3,), (3,), np.array([[0]]), 4))
    other = MlaCall(**{**call.__dict__, "projected": call.latent + 1})
    assert not np.allclose(attend(call), attend(other))
    np.testing.assert_array_equal(call.written, other.written)


def test_the_derivative_by_the_scale_is_that_of_differences() -> None:
    call = call_of(Paged((3, 2), (3, 9), np.array([[4, -1, -1], [1, 5, 2]]), 4))
    shape = call.shape
    ends = [
        attend(replace(call, shape=replace(shape, scaling=shape.scale * (1 + sign * 1e-5))))
        for sign in (-1, 1)
    ]
    np.testing.assert_allclose(by_scale(call), (ends[1] - ends[0]) / 2e-5, rtol=1e-6, atol=1e-9)
