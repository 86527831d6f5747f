"""Two processes share a layer; together they give what the whole checkpoint means."""

from dataclasses import replace

import numpy as np
import pytest

from testing.distributed.sharded_linear import (
    RANKS,
    Answer,
    Job,
    compare_with_unsharded,
    joined,
    new_job,
    run_rank,
)
from testing.harness.checks import check_product
from testing.harness.device import pool
from testing.harness.linear import LinearCase, Method
from testing.harness.linear_probes import record_verdict
from testing.harness.process_group import run_in_processes
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.unquantised_formats import Unquantised

CHANNEL = Method(Int8Channel(), {"quant_method": "w8a8_int8"})
BLOCK = Method(Int8Block(), {"quant_method": "blockwise_int8", "weight_block_size": [128, 128]})
BF16 = Method(Unquantised(), None)


def cases_of(method: Method) -> list[LinearCase]:
    """Sizes whose halves are whole blocks, so that every method can take them."""
    merged = LinearCase(method, "merged", 16, {"gate": 512, "up": 256}, 1040)
    heads = {"q": 512, "k": 256, "v": 256}
    qkv = LinearCase(method, "qkv", 5, heads, 512, head_size=128)
    row = LinearCase(method, "row", 16, {"": 384}, 1024)
    return [
        LinearCase(method, "column", 16, {"": 512}, 336),
        LinearCase(method, "replicated", 16, {"": 160}, 336),
        merged,
        replace(merged, fused=True, bias=True),
        qkv,
        replace(qkv, fused=True, bias=True),
        replace(qkv, shards={"q": 512, "k": 128, "v": 128}),
        row,
        replace(row, bias=True),
    ]


# Per channel and unquantised, halves may be of any size that the heads allow.
UNALIGNED = [
    LinearCase(method, *rest)
    for method in (CHANNEL, BF16)
    for rest in [
        ("column", 5, {"": 160}, 336),
        ("merged", 5, {"gate": 96, "up": 160}, 48),
        ("qkv", 5, {"q": 256, "k": 128, "v": 128}, 1056),
        ("row", 5, {"": 200}, 352),
    ]
]
CASES = [case for method in (CHANNEL, BLOCK, BF16) for case in cases_of(method)] + UNALIGNED
JOBS = [new_job(case, seed) for seed, case in enumerate(CASES)]


@pytest.fixture(scope="module")
def answers() -> list[list[Answer]]:
    """Every case's answers by rank; all cases share one world, since starting it takes seconds."""
    cuda = pool() != "cpu"
    by_rank = run_in_processes(
        run_rank, RANKS, JOBS, cuda, backend="nccl" if cuda else "gloo", seconds=200
    )
    return [list(by_case) for by_case in zip(*by_rank, strict=True)]


def verdict_of(job: Job, got: Float64) -> Verdict:
    checked = check_product(compare_with_unsharded(job, got), f"tensor parallel {RANKS}")
    return Verdict(job.case.subject).add(checked.findings, checked.statistics)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.subject for case in CASES])
def test_ranks_together_are_the_checkpoint(answers: list[list[Answer]], index: int) -> None:
    case, (first, _) = CASES[index], answers[index]
    verdict = verdict_of(JOBS[index], joined(case, answers[index]))
    record_verdict(verdict, case, first.backends, first.device, first.seconds)
    verdict.require()


def index_of(kind: str, bias: bool) -> int:
    return next(
        i for i, c in enumerate(CASES) if c.kind == kind and c.bias == bias and c.method == CHANNEL
    )


def test_a_rank_counted_twice_would_show(answers: list[list[Answer]]) -> None:
    index = index_of("merged", False)
    parts = [answers[index][0], answers[index][0]]
    assert "shard 'gate'" in str(verdict_of(JOBS[index], joined(CASES[index], parts)))


def test_a_missing_reduction_would_show(answers: list[list[Answer]]) -> None:
    index = index_of("row", False)
    job, width = JOBS[index], CASES[index].k // RANKS
    missing = job.x[:, width:] @ job.checkpoint.weight[:, width:].T
    found = str(verdict_of(job, joined(CASES[index], answers[index]) - missing))
    assert "K block 4 (k 512..639)" in found


def test_a_bias_added_by_every_rank_would_show(answers: list[list[Answer]]) -> None:
    index = index_of("row", True)
    job = JOBS[index]
    assert job.checkpoint.bias is not None
    got = joined(CASES[index], answers[index]) + job.checkpoint.bias
    assert not verdict_of(job, np.asarray(got)).ok
