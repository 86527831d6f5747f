"""Decode and drafts captured in a CUDA graph give bit for bit what they give outside."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from testing.harness.attention.case import AttentionCase, Call, make_batch, on_backend, prefixes
from testing.harness.attention.examine import judge
from testing.harness.attention.graphs import bits_of, capture, eager
from testing.harness.attention.layer import build
from testing.harness.device import device
from testing.harness.tensors import to_numpy

PLAIN = AttentionCase(16, 2, 64)
CASES = {
    "dense": PLAIN,
    "page_1": replace(PLAIN, page_size=1),
    "window": replace(PLAIN, window=33),
    "fp8": replace(PLAIN, fp8=True, page_size=64),
    "sinks": replace(PLAIN, sinks=True, window=17, dtype="float16"),
}
# Those of one kind: FlashInfer compiles for minutes for each.
BACKENDS = {"triton": list(CASES), "flashinfer": ["dense", "page_1", "window"]}
# As many requests, and pages of the longest: what a graph's memory has room for.
LENGTHS = ([0, 15, 16, 700, 63], [700, 1, 2, 0, 511], [31, 32, 700, 33, 600])
CALLS = {
    "decode": [Call("decode", prefixes(lengths)) for lengths in LENGTHS],
    "draft": [Call("draft", prefixes(lengths, 6)) for lengths in LENGTHS],
}
RUNS = [
    (name, mode, backend) for backend, names in BACKENDS.items() for name in names for mode in CALLS
]


@pytest.mark.parametrize(("name", "mode", "backend"), RUNS)
def test_replays_are_what_the_layer_gives_outside(name: str, mode: str, backend: str) -> None:
    case, rng = on_backend(CASES[name], backend), np.random.default_rng(5)
    loaded = build(case, rng, device())
    batches = [make_batch(case, call, rng) for call in CALLS[mode]]
    num_pages = max(batch.plan.num_pages for batch in batches)
    captured = capture(loaded, batches[0], num_pages)
    for batch in [*batches, batches[0]]:
        output = captured.replay(batch)
        want, cache = eager(loaded, batch, num_pages)
        assert torch.equal(output.view(torch.int16), want.view(torch.int16)), str(batch.call)
        for mine, its in ((captured.tensors.cache.k, cache.k), (captured.tensors.cache.v, cache.v)):
            assert torch.equal(mine.view(bits_of(mine)), its.view(bits_of(its)))
        got = to_numpy(output).reshape(-1, case.heads, case.dims[1])
        judge(batch, loaded.sinks, got).require()
