"""Two processes share a layer; together they give what the whole checkpoint means."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from testing.distributed.sharded_linear import (
    RANKS,
    Answer,
    examination_of,
    job_of,
    run_rank,
    verdict_of,
)
from testing.harness.device import pool
from testing.harness.linear import Answers, LinearCase, Method
from testing.harness.linear_probes import record_verdict
from testing.harness.process_group import run_in_processes
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.unquantised_formats import Unquantised
from testing.quant.int8.methods import BLOCK, CHANNEL
from testing.strength.edits.weights import one_percent

BF16 = Method(Unquantised(), None)


def cases_of(method: Method) -> list[LinearCase]:
    """Sizes whose halves are whole blocks, so that every method can take them."""
    column = LinearCase(method, "column", 16, {"": 512}, 336)
    merged = LinearCase(method, "merged", 16, {"gate": 512, "up": 256}, 1040)
    qkv = LinearCase(method, "qkv", 5, {"q": 512, "k": 256, "v": 256}, 512, head_size=128)
    row = LinearCase(method, "row", 16, {"": 384}, 1024)
    gathered = {"gather_output": True}
    return [
        column,
        LinearCase(method, "replicated", 16, {"": 160}, 336),
        merged,
        replace(merged, fused=True, bias=True),
        qkv,
        replace(qkv, fused=True, bias=True),
        replace(qkv, shards={"q": 512, "k": 128, "v": 128}),
        row,
        replace(row, bias=True),
        replace(column, bias=True, options=gathered),
        replace(merged, options=gathered),
        replace(row, bias=True, options={"input_is_parallel": False}),
        replace(row, bias=True, options={"reduce_results": False}),
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
EXAMINATIONS = [examination_of(case, seed) for seed, case in enumerate(CASES)]


@dataclass(frozen=True)
class RankFault:
    """The second rank's weight scales are 1% off; the check on the lossless grid names `places`."""

    case: LinearCase
    places: frozenset[tuple[str, str]]


# Each rank holds one tile of the column layer, and two K blocks of the row layer.
FAULTS = [
    RankFault(LinearCase(method, kind, 32, {"": 256}, k), frozenset(places))
    for method in (CHANNEL, BLOCK)
    for kind, k, places in [
        ("column", 128, {("tile", "tile (1, 0)")}),
        ("row", 256, {("k_block", "K block 1 (k 128..255)")}),
    ]
]
FAULTY = [examination_of(fault.case, 100 + seed) for seed, fault in enumerate(FAULTS)]


@pytest.fixture(scope="module")
def answers() -> list[list[Answer]]:
    """Every case's answers by rank; all cases share one world, since starting it takes seconds."""
    cuda = pool() != "cpu"
    jobs = [job_of(e) for e in EXAMINATIONS] + [job_of(e, one_percent) for e in FAULTY]
    by_rank = run_in_processes(
        run_rank, RANKS, jobs, cuda, backend="nccl" if cuda else "gloo", seconds=200
    )
    return [list(by_case) for by_case in zip(*by_rank, strict=True)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.subject for case in CASES])
def test_ranks_together_are_the_checkpoint(answers: list[list[Answer]], index: int) -> None:
    case, (first, _) = CASES[index], answers[index]
    verdict = verdict_of(EXAMINATIONS[index], answers[index])
    record_verdict(verdict, case, first.backends, first.device, first.seconds)
    verdict.require()


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=[f.case.subject for f in FAULTS])
def test_a_fault_of_one_rank_is_named(answers: list[list[Answer]], index: int) -> None:
    verdict = verdict_of(FAULTY[index], answers[len(CASES) + index])
    assert named(verdict) == FAULTS[index].places, str(verdict)


def named(verdict: Verdict) -> set[tuple[str, str]]:
    """(family, place) of the parts that the lossless grid shows to be biased."""
    found = [f for f in verdict.findings if f.check == "lossless grid" and f.family != "element"]
    return {(f.family, f.place) for f in found}


def index_of(kind: str, bias: bool = False, options: Mapping[str, Any] | None = None) -> int:
    wanted = (kind, bias, options or {}, CHANNEL)
    return next(i for i, c in enumerate(CASES) if (c.kind, c.bias, c.options, c.method) == wanted)


def changed(answer: Answer, grid: Float64) -> Answer:
    """The answer with another output for the first question."""
    outputs = [grid, *answer.answers.outputs[1:]]
    return replace(answer, answers=Answers(outputs, answer.answers.findings))


def test_a_rank_counted_twice_would_show(answers: list[list[Answer]]) -> None:
    index = index_of("merged")
    first = answers[index][0]
    assert "shard 'gate'" in str(verdict_of(EXAMINATIONS[index], [first, first]))


def test_a_missing_reduction_would_show(answers: list[list[Answer]]) -> None:
    index = index_of("row")
    examination, width = EXAMINATIONS[index], CASES[index].k // RANKS
    weight = examination.subject.checkpoint.weight
    missing = examination.questions[0].x[:, width:] @ weight[:, width:].T
    ranks = [changed(a, a.answers.outputs[0] - missing) for a in answers[index]]
    blocks = {("k_block", f"K block {b} (k {128 * b}..{128 * b + 127})") for b in range(4, 8)}
    assert named(verdict_of(examination, ranks)) >= blocks


def test_a_bias_added_by_every_rank_would_show(answers: list[list[Answer]]) -> None:
    index = index_of("row", bias=True)
    bias = EXAMINATIONS[index].subject.checkpoint.bias
    assert bias is not None
    ranks = [changed(a, a.answers.outputs[0] + bias) for a in answers[index]]
    assert not verdict_of(EXAMINATIONS[index], ranks).ok
