"""A backend refuses what its kernels cannot take with its limit, as the layer is built or called.

Which layers those are is written here a second time: a limit that moves has to move here too.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from layers.kernels.capability import BackendUnavailable
from testing.harness.attention.case import TREE, AttentionCase, Call, make_batch, prefixes
from testing.harness.attention.layer import build, tensors_of
from testing.harness.attention.pages import frozen
from testing.harness.device import device

PLAIN = AttentionCase(8, 2, 64)
DECODE = Call("decode", prefixes([3, 40]))
DRAFT = Call("draft", prefixes([3, 40], 7), TREE)
LIMITS: dict[str, tuple[AttentionCase, Call, str]] = {
    "flashinfer, heads of 96": (
        replace(PLAIN, backend="flashinfer", head_dim=96),
        DECODE,
        "needs head_dim of 64, 128 or 256, it is 96",
    ),
    "flashinfer, narrower values": (
        replace(PLAIN, backend="flashinfer", head_dim=128, v_head_dim=64),
        DECODE,
        "needs v_head_dim equal to head_dim 128, it is 64",
    ),
    "flashinfer, sinks with a cap": (
        replace(PLAIN, backend="flashinfer", sinks=True, soft_cap=5.0),
        DECODE,
        "has no sinks with a soft cap, which is 5",
    ),
    "flashinfer, drafts with sinks": (
        replace(PLAIN, backend="flashinfer", sinks=True),
        DRAFT,
        "has no sinks in mode 'draft', only in extend or decode",
    ),
    "flashinfer, drafts with sinks in a window": (
        replace(PLAIN, backend="flashinfer", sinks=True, window=9),
        DRAFT,
        "has no sinks in mode 'draft', only in extend or decode",
    ),
    "triton, heads of 320": (
        replace(PLAIN, backend="triton", head_dim=320),
        DECODE,
        "needs head_dim of at most 256, it is 320",
    ),
    "triton, heads of 320 in a window": (
        replace(PLAIN, backend="triton", head_dim=320, window=9),
        DECODE,
        "needs head_dim of at most 256, it is 320",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_told_before_any_kernel_runs(name: str) -> None:
    case, call, message = LIMITS[name]
    rng = np.random.default_rng(1)
    with pytest.raises(BackendUnavailable, match=re.escape(message)) as raised:
        loaded = build(case, rng, device())
        t = tensors_of(make_batch(case, call, rng), device())
        before = [frozen(pages) for pages in (t.cache.k, t.cache.v)]
        try:
            loaded.layer(t.q, t.k, t.v, t.cache, t.metadata)
        finally:
            torch.cuda.synchronize()
            for old, pages in zip(before, (t.cache.k, t.cache.v), strict=True):
                assert np.array_equal(old, frozen(pages)), "the cache was written before"
    assert f"backend '{case.backend}'" in str(raised.value)
    assert "Backends that can run here: " in str(raised.value)
