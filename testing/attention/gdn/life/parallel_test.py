"""Two processes share a gated delta layer's heads: together they give the whole layer's output."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from layers.distributed.parallel_state import initialize_model_parallel
from testing.attention.gdn import cases
from testing.attention.gdn.examine import output_rows, rounding_of, seed_of
from testing.attention.gdn.layer import GdnCase, build, inputs_of
from testing.harness.attention.excess import check_excess
from testing.harness.process_group import run_in_processes
from testing.harness.tensors import to_numpy
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.gdn import GdnCall, GdnShape, delta_rule
from testing.oracles.attention.gdn.noise import gdn_noise

RANKS = 2
CASES = [cases.MIXED, cases.MIXED_SHORT, cases.DECODE[1]]
CALLS = [case.call(np.random.default_rng(seed_of(case))) for case in CASES]


def part_of(call: GdnCall, rank: int) -> GdnCall:
    """A rank's heads of inputs and states; weights stay whole, as the loader takes its part."""
    shape = call.shape
    half = GdnShape(
        shape.k_heads // RANKS, shape.v_heads // RANKS, shape.k_dim, shape.v_dim, shape.width
    )
    keys = shape.k_heads * shape.k_dim

    def channels(x: Float64, axis: int) -> Float64:
        parts = np.split(x, [keys, 2 * keys], axis=axis)
        return np.concatenate([np.split(p, RANKS, axis=axis)[rank] for p in parts], axis=axis)

    return replace(
        call,
        shape=half,
        mixed=channels(call.mixed, 1),
        conv_state=channels(call.conv_state, 1),
        a=np.split(call.a, RANKS, axis=1)[rank],
        b=np.split(call.b, RANKS, axis=1)[rank],
        state=np.split(call.state, RANKS, axis=1)[rank],
    )


def run_rank(rank: int, jobs: list[tuple[GdnCase, GdnCall]]) -> list[tuple[Float64, Float64]]:
    """Of each job, this rank's heads of the output and of the states."""
    torch.set_num_threads(1)
    initialize_model_parallel(tensor_parallel_size=RANKS)
    answers = []
    for case, call in jobs:
        layer = build(case, call, "cpu")
        inputs = inputs_of(layer, case, part_of(call, rank))
        output = inputs.forward(layer)
        answers.append((output, to_numpy(inputs.state.ssm)))
    return answers


@pytest.fixture(scope="module")
def answers() -> list[list[tuple[Float64, Float64]]]:
    """Every job's answers by rank, from one world."""
    by_rank = run_in_processes(run_rank, RANKS, list(zip(CASES, CALLS, strict=True)), seconds=200)
    return [list(of_job) for of_job in zip(*by_rank, strict=True)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[cases.case_id(case) for case in CASES])
def test_ranks_together_are_the_layer(
    answers: list[list[tuple[Float64, Float64]]], index: int
) -> None:
    case, call, ranks = CASES[index], CALLS[index], answers[index]
    output = np.concatenate([heads for heads, _ in ranks], axis=1)
    answer = delta_rule(call)
    noise = gdn_noise(call, answer, rounding_of(build(case, call, "cpu"), case.mode, case.kind))
    verdict = Verdict(f"{case.subject}, two ranks")
    checked = check_excess(output_rows(call, output, answer, noise), "output")
    verdict.add(checked.findings).require()
    states = np.concatenate([state for _, state in ranks], axis=1)[list(call.slots)]
    bound = noise.state.bound.reshape(answer.state.shape)
    assert (np.abs(states - answer.state) <= bound + np.abs(answer.state) * 2.0**-24).all()
