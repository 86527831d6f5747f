"""Two processes share an MLA layer's heads: together they give the whole layer's output."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import layers.quantization.w8a8_int8  # noqa: F401 registers itself, here and in the processes
from layers.distributed.parallel_state import initialize_model_parallel
from testing.attention.mla import cases
from testing.attention.mla.call import Call, random_call
from testing.attention.mla.examine import arithmetic_of, rows_of, seed_of
from testing.attention.mla.layer import MlaCase, build, heads_of
from testing.attention.mla.methods import QUANTISED, UNQUANTISED
from testing.harness.attention.excess import check_excess
from testing.harness.process_group import run_in_processes
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import LinearCheckpoint

RANKS = 2
CASES = [
    replace(case, method=method)
    for method in (UNQUANTISED, QUANTISED[0])
    for case in (cases.PROMPTS, cases.MIXED, cases.DECODE, cases.CHAIN)
]


@dataclass(frozen=True)
class Job:
    """What the ranks have to do, whole."""

    case: MlaCase
    checkpoint: LinearCheckpoint
    call: Call


def job_of(case: MlaCase) -> Job:
    rng = np.random.default_rng(seed_of(case))
    checkpoint = case.checkpoint(rng)
    return Job(case, checkpoint, random_call(case, checkpoint, rng))


JOBS = [job_of(case) for case in CASES]


def run_rank(rank: int, jobs: list[Job]) -> list[tuple[Float64, Float64]]:
    """Of each job, this rank's heads of the output, and its whole cache."""
    torch.set_num_threads(1)
    initialize_model_parallel(tensor_parallel_size=RANKS)
    answers = []
    for job in jobs:
        loaded = build(job.case, job.checkpoint, "cpu")
        inputs = job.call.inputs("cpu")
        width = job.case.shape.heads // RANKS
        mine = replace(inputs, q=inputs.q[:, rank * width : (rank + 1) * width].contiguous())
        output = heads_of(mine.forward(loaded.layer), job.case)
        answers.append((output, inputs.cache.pages.to(torch.float64).numpy()))
    return answers


@pytest.fixture(scope="module")
def answers() -> list[list[tuple[Float64, Float64]]]:
    """Every job's answers by rank, from one world."""
    by_rank = run_in_processes(run_rank, RANKS, JOBS, seconds=200)
    return [list(of_job) for of_job in zip(*by_rank, strict=True)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[cases.case_id(case) for case in CASES])
def test_ranks_together_are_the_layer(
    answers: list[list[tuple[Float64, Float64]]], index: int
) -> None:
    job, ranks = JOBS[index], answers[index]
    output = np.concatenate([heads for heads, _ in ranks], axis=1)
    loaded = build(job.case, job.checkpoint, "cpu")
    inputs = job.call.inputs("cpu")
    absorbed = not loaded.layer.is_unabsorbed(inputs.cache, inputs.metadata)
    rows = rows_of(job.call, output, arithmetic_of(loaded, job.call, absorbed))
    verdict = Verdict(f"{job.case.subject}, two ranks")
    verdict.add(check_excess(rows, "output").findings).require()
    np.testing.assert_array_equal(ranks[0][1], ranks[1][1], "ranks hold other latents")
