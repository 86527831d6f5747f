"""Two processes share a MoE layer; together they give what the whole checkpoint means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from testing.harness.device import device, pool
from testing.harness.moe.layer import Answers, MoeCase, MoeMethod, build
from testing.harness.moe.probes import MoeExamination
from testing.harness.moe.subject import MoeSubject
from testing.harness.process_group import run_in_processes
from testing.harness.verdict import Verdict
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.fp4.nvfp4_methods import W4A4
from testing.moe.fp8.methods import BLOCK as FP8_BLOCK
from testing.moe.fp8.methods import STATIC as FP8_STATIC
from testing.moe.int8.methods import BLOCK as INT8_BLOCK
from testing.moe.int8.methods import CHANNEL as INT8_CHANNEL
from testing.moe.parallel.parallel_moe import RANKS, Job, run_rank
from testing.oracles.error_model.accumulators import HOPPER_BF16
from testing.oracles.moe.routing import Routing
from testing.oracles.rounding import round_to
from testing.oracles.unquantised_formats import Unquantised

UNQUANTISED = MoeMethod(Unquantised(), None, accumulators={"triton": HOPPER_BF16})


def case_of(method: MoeMethod) -> MoeCase:
    backend = "torch" if pool() == "cpu" else "triton"
    case = MoeCase(method, 8, 4, 128, 256, backend=backend, bias=True)
    return replace(case, naming="gpt_oss", activation="swiglu_oai") if method is MXFP4 else case


# A GPU would have to compile every method's kernels; how work is shared does not depend on them.
METHODS = [UNQUANTISED, INT8_CHANNEL, FP8_STATIC]
if pool() == "cpu":
    METHODS += [INT8_BLOCK, FP8_BLOCK, W4A4, MXFP4]
SHARED = replace(
    case_of(INT8_CHANNEL), routing=Routing(2, "sigmoid", factor=2.5, shared=1), bias=False
)
# Every token's output then comes from one rank, and the other adds zeros.
ALONE = [replace(case_of(m), routing=Routing(1, renormalise=False), bias=False) for m in METHODS]
UNREDUCED = replace(case_of(INT8_CHANNEL), options={"reduce_results": False})
CASES: list[tuple[MoeCase, bool]] = [
    *((case_of(method), splits) for method in METHODS for splits in (False, True)),
    *((case, splits) for case in (SHARED, UNREDUCED) for splits in (False, True)),
    *((case, False) for case in ALONE),
]


def examination_of(index: int) -> MoeExamination:
    case, splits = CASES[index]
    rng = np.random.default_rng(index)
    subject = MoeSubject(case, case.checkpoint(rng), RANKS, splits)
    return MoeExamination(subject, rng)


EXAMINATIONS = [examination_of(index) for index in range(len(CASES))]


def case_name(index: int) -> str:
    case, splits = CASES[index]
    kind = "split experts" if splits else "shared experts" if case.routing.shared else "experts"
    return f"{index} {case.method.format.name}, {kind}, top {case.routing.top_k}"


@pytest.fixture(scope="module")
def answers() -> list[list[Answers]]:
    """Every case's answers by rank; all share one world, since starting it takes seconds."""
    cuda = pool() != "cpu"
    jobs = [
        Job(e.subject.case, e.subject.checkpoint, e.questions, e.subject.splits)
        for e in EXAMINATIONS
    ]
    by_rank = run_in_processes(
        run_rank, RANKS, jobs, cuda, backend="nccl" if cuda else "gloo", seconds=200
    )
    return [list(by_case) for by_case in zip(*by_rank, strict=True)]


def verdict_of(examination: MoeExamination, ranks: list[Answers]) -> Verdict:
    case = examination.subject.case
    whole = []
    for parts in zip(*(rank.outputs for rank in ranks), strict=True):
        if case.options.get("reduce_results", True):
            assert np.array_equal(parts[0], parts[1], equal_nan=True), "ranks' outputs differ"
            whole.append(parts[0])
        else:
            whole.append(round_to(np.sum(parts, axis=0), case.kind))
    verdict = examination.judge(whole)
    for rank in ranks:
        verdict.add(rank.findings)
    return verdict


@pytest.mark.parametrize("index", range(len(CASES)), ids=case_name)
def test_ranks_together_are_the_checkpoint(answers: list[list[Answers]], index: int) -> None:
    verdict_of(EXAMINATIONS[index], answers[index]).require()


@pytest.mark.parametrize("index", range(len(CASES) - len(ALONE), len(CASES)), ids=case_name)
def test_where_one_rank_has_all_of_a_token_nothing_changes_by_a_bit(
    answers: list[list[Answers]], index: int
) -> None:
    examination = EXAMINATIONS[index]
    subject = examination.subject
    alone = build(subject.case, subject.checkpoint, device()).answer(examination.questions)
    for want, got in zip(alone.outputs, answers[index][0].outputs, strict=True):
        assert np.array_equal(want, got, equal_nan=True)


def test_a_rank_left_out_would_show(answers: list[list[Answers]]) -> None:
    index = next(i for i, (case, _) in enumerate(CASES) if case.options)
    examination, (first, second) = EXAMINATIONS[index], answers[index]
    halved = Answers([output * 0 for output in second.outputs], second.findings)
    verdict = verdict_of(examination, [first, halved])
    places = {f.place for f in verdict.findings if f.check == "end to end"}
    assert {"expert 2", "expert 3"} <= places, str(verdict)
