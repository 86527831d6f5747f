"""Layers of one model, dense and windowed in turn, share a batch's metadata and are all right."""

from dataclasses import replace

import numpy as np
import pytest

from testing.harness.attention.case import (
    TREE,
    AttentionCase,
    Batch,
    Call,
    make_batch,
    on_backend,
    prefixes,
)
from testing.harness.attention.examine import judge
from testing.harness.attention.layer import LoadedAttention, build, metadata_of, tensors_of
from testing.harness.device import device, pool
from testing.harness.tensors import to_numpy

PLAIN = AttentionCase(16, 2, 64)
CALLS = {
    "extend": Call("extend", ((3, 16), (40, 17), (0, 31))),
    "decode": Call("decode", prefixes([0, 15, 64, 90])),
    "draft": Call("draft", prefixes([3, 31, 90], 7), TREE),
}
BACKENDS = ["torch"] if pool() == "cpu" else ["triton", "flashinfer"]
# FlashInfer's prompts compile longest, and share their plan's code with drafts.
RUNS = [(b, mode) for b in BACKENDS for mode in CALLS if (b, mode) != ("flashinfer", "extend")]


def forward(loaded: LoadedAttention, batch: Batch, metadata: object) -> None:
    case, t = loaded.case, tensors_of(batch, loaded.layer.device)
    output = loaded.layer(t.q, t.k, t.v, t.cache, metadata)
    got = to_numpy(output).reshape(-1, case.heads, case.dims[1])
    judge(batch, loaded.sinks, got).require()


@pytest.mark.parametrize(("backend", "mode"), RUNS)
def test_dense_and_windowed_layers_take_turns(backend: str, mode: str) -> None:
    rng = np.random.default_rng(9)
    cases = [on_backend(replace(PLAIN, window=window), backend) for window in (None, 33, None)]
    batches = [make_batch(cases[0], CALLS[mode], rng) for _ in range(2)]
    for batch in batches:
        metadata = metadata_of(batch, device())
        for case in cases:
            forward(build(case, rng, device()), replace(batch, case=case), metadata)


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "flashinfer"])
def test_caches_of_other_scales_take_turns(backend: str) -> None:
    rng = np.random.default_rng(10)
    case = on_backend(replace(PLAIN, fp8=True), backend)
    first = make_batch(case, CALLS["decode"], rng)
    metadata = metadata_of(first, device())
    loaded = build(case, rng, device())
    for scales in (case.scales, (0.11, 0.013)):
        batch = make_batch(replace(case, scales=scales), CALLS["decode"], rng)
        forward(loaded, replace(batch, plan=first.plan), metadata)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_request_gives_no_output(backend: str) -> None:
    rng = np.random.default_rng(11)
    loaded = build(on_backend(PLAIN, backend), rng, device())
    empty = replace(CALLS["decode"], requests=())
    plan = make_batch(PLAIN, CALLS["decode"], rng).plan
    batch = Batch(loaded.case, empty, replace(plan, tables=plan.tables[:0], lengths=()), [], [])
    metadata = metadata_of(batch, device())
    t = tensors_of(make_batch(loaded.case, CALLS["decode"], rng), device())
    output = loaded.layer(t.q[:0], t.k[:0], t.v[:0], t.cache, metadata)
    assert tuple(output.shape) == (0, 16 * 64)
