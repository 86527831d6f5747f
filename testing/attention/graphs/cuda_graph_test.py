"""Decode and drafts captured in a CUDA graph give bit for bit what they give outside."""

from dataclasses import replace

import pytest

from testing.attention.graphs.graph_calls import CALLS
from testing.harness.attention.case import AttentionCase, on_backend
from testing.harness.attention.graphs import require_replays

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
RUNS = [
    (name, mode, backend) for backend, names in BACKENDS.items() for name in names for mode in CALLS
]


@pytest.mark.parametrize(("name", "mode", "backend"), RUNS)
def test_replays_are_what_the_layer_gives_outside(name: str, mode: str, backend: str) -> None:
    require_replays(on_backend(CASES[name], backend), CALLS[mode], seed=5)
