"""What an attention layer cannot take is refused by name, with what is wanted, before it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.layer import Attention
from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.kernels.capability import BackendUnavailable
from testing.harness.attention.case import AttentionCase, Call, make_batch
from testing.harness.attention.layer import PREFIX, Tensors, build, tensors_of
from testing.harness.attention.pages import frozen

CALL = Call("extend", ((3, 2), (17, 4)))
CASES = {"dense": AttentionCase(4, 2, 64), "swa": AttentionCase(4, 2, 64, window=9)}

TABLE = torch.zeros(2, 3, dtype=torch.int32)


def cache(**changes: Any) -> PagedKVCache:
    options: dict[str, Any] = {"num_pages": 40, "page_size": 16, "num_kv_heads": 2, "head_dim": 64}
    return PagedKVCache(**(options | {"dtype": torch.bfloat16, "device": "cpu"} | changes))


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


# What is passed in place of a right argument, and what the message says.
REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "q of other heads": ({"q": zeros(6, 2, 64)}, ValueError, "q is (6, 2, 64) torch.bfloat16"),
    "q of another size": ({"q": zeros(6, 4, 32)}, ValueError, "wanted (6, 4, 64) torch.bfloat16"),
    "a token too few": ({"k": zeros(5, 2, 64)}, ValueError, "k is (5, 2, 64)"),
    "v of query heads": ({"v": zeros(6, 4, 64)}, ValueError, "v is (6, 4, 64)"),
    "q on another device": (
        {"q": zeros(6, 4, 64).to("meta")},
        ValueError,
        "q is (6, 4, 64) torch.bfloat16 on meta, wanted (6, 4, 64) torch.bfloat16 on cpu",
    ),
    "a batch on another device": (
        {"metadata": AttentionMetadata.extend([2, 4], [5, 21], TABLE.to("meta"), 16)},
        ValueError,
        "the metadata is on meta, wanted cpu",
    ),
    "a gradient of v": (
        {"v": zeros(6, 2, 64).requires_grad_()},
        ValueError,
        "v requires a gradient",
    ),
    "q of fp16": (
        {"q": zeros(6, 4, 64, dtype=torch.float16)},
        ValueError,
        "q is (6, 4, 64) torch.float16 on cpu, wanted (6, 4, 64) torch.bfloat16",
    ),
    "a gradient": (
        {"k": zeros(6, 2, 64).requires_grad_()},
        ValueError,
        "k requires a gradient, which attention to a cache does not have",
    ),
    "a cache of other heads": (
        {"cache": cache(num_kv_heads=4)},
        ValueError,
        "the cache has (key-value heads, head_dim, v_head_dim) (4, 64, 64), wanted (2, 64, 64)",
    ),
    "a cache of other pages": (
        {"cache": cache(page_size=32)},
        ValueError,
        "the metadata has pages of 16 tokens, the cache of 32",
    ),
    "a cache of another type": (
        {"cache": cache(dtype=torch.float16)},
        BackendUnavailable,
        "needs a KV cache of the queries' torch.bfloat16, or of torch.float8_e4m3fn, it is of "
        "torch.float16",
    ),
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("name", REFUSED)
def test_wrong_inputs_are_refused_before_anything_is_written(name: str, kind: str) -> None:
    changes, error, message = REFUSED[name]
    rng = np.random.default_rng(1)
    loaded = build(CASES[kind], rng, "cpu")
    t = replace(tensors_of(make_batch(CASES[kind], CALL, rng), "cpu"), **changes)
    before = [frozen(pages) for pages in (t.cache.k, t.cache.v)]
    with pytest.raises(error, match=re.escape(message)) as raised:
        forward(loaded.layer, t)
    assert PREFIX in str(raised.value)
    for old, pages in zip(before, (t.cache.k, t.cache.v), strict=True):
        assert np.array_equal(old, frozen(pages))


def test_what_is_no_cache_is_refused() -> None:
    rng = np.random.default_rng(1)
    loaded = build(CASES["dense"], rng, "cpu")
    t = tensors_of(make_batch(CASES["dense"], CALL, rng), "cpu")
    latents = MLAKVCache(40, 16, 64, 16, device="cpu")
    with pytest.raises(ValueError, match="the cache is a MLAKVCache, wanted the kind PagedKVCache"):
        loaded.layer(t.q, t.k, t.v, latents, t.metadata)


def test_a_cache_on_another_device_is_refused() -> None:
    rng = np.random.default_rng(1)
    loaded = build(CASES["dense"], rng, "cpu")
    t = tensors_of(make_batch(CASES["dense"], CALL, rng), "cpu")
    with pytest.raises(ValueError, match="the cache is on meta, wanted cpu"):
        forward(loaded.layer, replace(t, cache=cache(device="meta")))


def forward(layer: Attention, t: Tensors) -> torch.Tensor:
    return layer(t.q, t.k, t.v, t.cache, t.metadata)


TREE = torch.ones(2, 4, 4, dtype=torch.bool)
BLIND = TREE.clone()
BLIND[1, 2, 2] = False
MADE: dict[str, tuple[Callable[[], object], str]] = {
    "more queries than keys": (
        lambda: AttentionMetadata.extend([5, 1], [4, 9], TABLE, 16),
        "request 0 has 5 query tokens and 4 keys",
    ),
    "no query": (
        lambda: AttentionMetadata.extend([0, 1], [4, 9], TABLE, 16),
        "request 0 has 0 query tokens and 4 keys, wanted at least 1",
    ),
    "lengths of other requests": (
        lambda: AttentionMetadata.extend([5, 1], [9], TABLE[:1], 16),
        "query_lens has 2 requests and kv_lens 1, wanted as many",
    ),
    "no room": (
        lambda: AttentionMetadata.decode([4, 49], TABLE, 16),
        "request 1 has 49 keys, but its row of the page table has room for 48",
    ),
    "pages of seven": (
        lambda: AttentionMetadata.decode([4, 9], TABLE, 7),
        "page_size is 7, wanted one of (1, 16, 32, 64)",
    ),
    "a table of int64": (
        lambda: AttentionMetadata.decode([4, 9], TABLE.long(), 16),
        "page_table is (2, 3) torch.int64, wanted (2, pages) torch.int32",
    ),
    "a table of other requests": (
        lambda: AttentionMetadata.decode([4, 9, 2], TABLE, 16),
        "page_table is (2, 3) torch.int32, wanted (3, pages) torch.int32",
    ),
    "a table of one row": (
        lambda: AttentionMetadata.decode([4, 9], TABLE[0], 16),
        "page_table is (3,) torch.int32, wanted (2, pages)",
    ),
    "a mask of other requests": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, TREE[:1]),
        "mask is (1, 4, 4) torch.bool, wanted (2, S, S)",
    ),
    "a mask that is not square": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, TREE[..., :3]),
        "mask is (2, 4, 3) torch.bool, wanted (2, S, S)",
    ),
    "one mask for all": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, TREE[0]),
        "mask is (4, 4) torch.bool, wanted (2, S, S)",
    ),
    "a mask elsewhere": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, TREE.to("meta")),
        "mask is on meta, wanted cpu, where the page table is",
    ),
    "drafts without a place": (
        lambda: AttentionMetadata.draft([9, 3], TABLE, 16, TREE),
        "request 1 has 4 query tokens and 3 keys",
    ),
    "a mask of floats": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, TREE.float()),
        "mask is (2, 4, 4) torch.float32, wanted (2, S, S) torch.bool",
    ),
    "positions of other drafts": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, TREE, torch.zeros(2, 3)),
        "positions is (2, 3), wanted (2, 4)",
    ),
    "a draft token that does not see itself": (
        lambda: AttentionMetadata.draft([9, 9], TABLE, 16, BLIND),
        "mask hides draft token 2 of request 1 from itself, wanted a diagonal that is true",
    ),
    "a cache of float32": (
        lambda: cache(dtype=torch.float32),
        "PagedKVCache: dtype is torch.float32, wanted one of torch.bfloat16",
    ),
    "a cache of no page": (
        lambda: cache(num_pages=0),
        "PagedKVCache: num_pages is 0, wanted at least 1",
    ),
    "a cache of fewer pages than none": (
        lambda: cache(num_pages=-3),
        "PagedKVCache: num_pages is -3, wanted at least 1",
    ),
    "a cache of pages of seven": (
        lambda: cache(page_size=7),
        "PagedKVCache: page_size is 7, wanted one of (1, 16, 32, 64) tokens",
    ),
    "a cache of half a page": (
        lambda: cache(num_pages=2.5),
        "layer 'PagedKVCache': num pages is 2.5, wanted an integer",
    ),
    "a cache without heads": (
        lambda: cache(num_kv_heads=0),
        "PagedKVCache: num_kv_heads is 0, wanted at least 1",
    ),
    "a cache of no values": (
        lambda: cache(v_head_dim=0),
        "PagedKVCache: v_head_dim is 0, wanted at least 1",
    ),
    "a scale without codes": (
        lambda: cache(k_scale=0.5),
        "k_scale is 0.5, but a cache of torch.bfloat16 holds no codes",
    ),
    "a scale of zero": (
        lambda: cache(dtype=torch.float8_e4m3fn, v_scale=0.0),
        "v_scale is 0.0, wanted a positive number",
    ),
    "a scale without end": (
        lambda: cache(dtype=torch.float8_e4m3fn, k_scale=math.inf),
        "k_scale is inf, wanted a positive number",
    ),
    "a scale that is no number": (
        lambda: cache(dtype=torch.float8_e4m3fn, k_scale=math.nan),
        "k_scale is nan, wanted a positive number",
    ),
    "a scaling that is no number": (
        lambda: Attention(4, 2, 64, scaling=math.nan, prefix=PREFIX),
        f"layer '{PREFIX}': scaling is nan, wanted a number or None",
    ),
    "a window of half a key": (
        lambda: Attention(4, 2, 64, sliding_window=8.5, prefix=PREFIX),  # type: ignore[arg-type]
        "sliding window is 8.5, wanted an integer",
    ),
    "a cap without end": (
        lambda: Attention(4, 2, 64, logit_soft_cap=math.inf, prefix=PREFIX),
        "logit_soft_cap is inf, wanted a positive number",
    ),
    "a head of nothing": (
        lambda: Attention(4, 2, 64, v_head_dim=0, prefix=PREFIX),
        f"layer '{PREFIX}': 4 query heads and 2 key-value heads of size 0",
    ),
    "a window of none": (
        lambda: Attention(4, 2, 64, sliding_window=0, prefix=PREFIX),
        f"layer '{PREFIX}': sliding_window is 0, wanted at least 1 key",
    ),
    "a negative cap": (
        lambda: Attention(4, 2, 64, logit_soft_cap=-1.0, prefix=PREFIX),
        f"layer '{PREFIX}': logit_soft_cap is -1.0, wanted a positive number",
    ),
    "inputs of float32": (
        lambda: Attention(4, 2, 64, params_dtype=torch.float32, prefix=PREFIX),
        "params_dtype is torch.float32, wanted torch.float16 or torch.bfloat16",
    ),
    "heads that do not divide": (
        lambda: Attention(6, 4, 64, prefix=PREFIX),
        "6 query heads cannot share 4 key-value heads evenly",
    ),
    "a rank without a head": (
        lambda: Attention(4, 2, 64, prefix=PREFIX, tp_rank=0, tp_size=3),
        "number of query heads 4 is not divisible",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_what_makes_no_sense_is_refused_as_it_is_made(name: str) -> None:
    make, message = MADE[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("backend", ["triton", "flashinfer"])
def test_a_backend_that_a_cpu_cannot_run_says_what_it_needs(backend: str, kind: str) -> None:
    case = replace(CASES[kind], backend=backend)
    with pytest.raises(BackendUnavailable) as raised:
        build(case, np.random.default_rng(1), "cpu")
    message = str(raised.value)
    assert f"layer '{PREFIX}'" in message
    assert f"backend '{backend}' needs a GPU (CUDA sm80 or newer)" in message
    assert message.endswith("Backends that can run here: torch.")


def test_a_backend_of_no_such_name_is_refused_with_those_there_are() -> None:
    case = replace(CASES["dense"], backend="fa9")
    with pytest.raises((BackendUnavailable, ValueError), match="fa9") as raised:
        build(case, np.random.default_rng(1), "cpu")
    assert "torch" in str(raised.value) and "triton" in str(raised.value)
