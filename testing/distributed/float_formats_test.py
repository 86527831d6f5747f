"""Two processes share layers of fp8 and 4-bit floats, whose scales are split or held in common."""

from dataclasses import replace

import pytest

import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4  # noqa: F401 all register themselves, here and in the processes
from testing.distributed.sharded_linear import (
    RANKS,
    Answer,
    Job,
    examination_of,
    job_of,
    run_rank,
    verdict_of,
)
from testing.harness.device import pool
from testing.harness.linear import LinearCase, Method
from testing.harness.linear_probes import record_verdict
from testing.harness.process_group import run_in_processes
from testing.quant.fp8 import methods as fp8
from testing.quant.mxfp4 import methods as mxfp4
from testing.quant.nvfp4 import methods as nvfp4


def cases_of(method: Method) -> list[LinearCase]:
    """Halves of whole blocks; the row layer has a row tile with a tail."""
    merged = LinearCase(method, "merged", 9, {"gate": 512, "up": 256}, 544)
    row = LinearCase(method, "row", 9, {"": 200}, 1024)
    return [
        merged,
        replace(merged, fused=True, bias=True),
        LinearCase(method, "qkv", 5, {"q": 512, "k": 128, "v": 128}, 512, head_size=128),
        row,
        replace(row, bias=True, options={"input_is_parallel": False}),
    ]


METHODS = [fp8.STATIC, fp8.DYNAMIC, fp8.BLOCK, nvfp4.W4A4, mxfp4.W4A4, mxfp4.W4A16]
# Backend torch, which quantises x of every format: what ranks hold does not depend on the kernel.
CASES = [replace(case, backend="torch") for method in METHODS for case in cases_of(method)]
EXAMINATIONS = [examination_of(case, seed) for seed, case in enumerate(CASES)]


def run_float_rank(rank: int, jobs: list[Job], cuda: bool) -> list[Answer]:
    """`run_rank`, in a process that has imported these formats."""
    return run_rank(rank, jobs, cuda)


@pytest.fixture(scope="module")
def answers() -> list[list[Answer]]:
    """Every case's answers by rank, from one world."""
    cuda = pool() != "cpu"
    jobs = [job_of(examination) for examination in EXAMINATIONS]
    by_rank = run_in_processes(
        run_float_rank, RANKS, jobs, cuda, backend="nccl" if cuda else "gloo", seconds=200
    )
    return [list(by_case) for by_case in zip(*by_rank, strict=True)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.subject for case in CASES])
def test_ranks_together_are_the_checkpoint(answers: list[list[Answer]], index: int) -> None:
    case, (first, _) = CASES[index], answers[index]
    verdict = verdict_of(EXAMINATIONS[index], answers[index])
    record_verdict(verdict, case, first.backends, first.device, first.seconds)
    verdict.require()
