"""Two processes share a layer's heads; together they give what the whole checkpoint means."""

from dataclasses import replace

from testing.attention.loading.sharded_attention import RANKS, Job, run_rank, verdict_of
from testing.harness.attention.case import (
    AttentionCase,
    Call,
    around_a_page_edge,
    on_backend,
    prefixes,
)
from testing.harness.device import pool
from testing.harness.process_group import run_in_processes

SPLIT = AttentionCase(8, 2, 64, sinks=True)
CASES = [
    SPLIT,
    replace(SPLIT, kv_heads=1, dtype="float16", window=9),
    replace(SPLIT, kv_heads=8, sinks=False, soft_cap=5.0),
    replace(SPLIT, fp8=True, page_size=64, sinks=False),
    replace(SPLIT, window=16, page_size=1),
]
CALLS = [Call("extend", around_a_page_edge(16)[::3]), Call("decode", prefixes([0, 15, 16, 70]))]
BACKENDS = ["torch"] if pool() == "cpu" else ["torch", "triton"]


def test_heads_of_two_processes_make_the_whole_layer() -> None:
    jobs = [
        Job(on_backend(case, backend), call, seed)
        for backend in BACKENDS
        for case in CASES
        for seed, call in enumerate(CALLS)
    ]
    cuda = pool() != "cpu"
    backend = "nccl" if cuda else "gloo"
    ranks = run_in_processes(run_rank, RANKS, jobs, cuda, backend=backend)
    for job, parts in zip(jobs, zip(*ranks, strict=True), strict=True):
        verdict_of(job, list(parts)).require()
