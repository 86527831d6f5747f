"""Tensor-parallel layers in two processes of one world, for the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from layers.distributed.parallel_state import initialize_model_parallel
from testing.harness.linear import Answers, LinearCase, LoadedLinear, Question, build
from testing.harness.linear_probes import Examination
from testing.harness.subject import Subject
from testing.harness.tensors import KINDS
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.rounding import round_to

RANKS = 2


@dataclass(frozen=True)
class Job:
    """A layer to build and what to ask it, whole; each rank takes its part.

    plant: puts a fault into the layer of the last rank.
    """

    case: LinearCase
    checkpoint: LinearCheckpoint
    questions: list[Question]
    plant: Callable[[LoadedLinear], None] | None = None


@dataclass(frozen=True)
class Answer:
    """One rank's parts of a layer's outputs, the kernels that gave them, where, in what time."""

    answers: Answers
    backends: dict[str, str]
    device: str
    seconds: float


def examination_of(case: LinearCase, seed: int) -> Examination:
    """The probes of a layer with a random checkpoint, all ranks together."""
    rng = np.random.default_rng(seed)
    return Examination(Subject(case, case.checkpoint(rng), _splits_x(case)), rng)


def job_of(examination: Examination, plant: Callable[[LoadedLinear], None] | None = None) -> Job:
    """What the ranks have to do for an examination."""
    subject = examination.subject
    return Job(subject.case, subject.checkpoint, examination.questions, plant)


def run_rank(rank: int, jobs: list[Job], cuda: bool) -> list[Answer]:
    """In a process: each layer loads the whole checkpoint, keeps its part and multiplies."""
    torch.set_num_threads(1)
    initialize_model_parallel(tensor_parallel_size=RANKS)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    return [_answer(rank, job, device) for job in jobs]


def _answer(rank: int, job: Job, device: torch.device) -> Answer:
    start = time.perf_counter()
    loaded = build(job.case, job.checkpoint, device)
    if job.plant is not None and rank == RANKS - 1:
        job.plant(loaded)
    answers = loaded.answer([_part(rank, job.case, question) for question in job.questions])
    return Answer(answers, loaded.backends, loaded.device_name, time.perf_counter() - start)


def _part(rank: int, case: LinearCase, question: Question) -> Question:
    if case.kind != "row" or not case.options.get("input_is_parallel", True):
        return question
    width = case.k // RANKS
    return Question(question.x[:, rank * width : (rank + 1) * width], question.padded)


def _splits_x(case: LinearCase) -> int:
    return RANKS if case.kind == "row" else 1


def verdict_of(examination: Examination, ranks: list[Answer]) -> Verdict:
    """What the ranks' outputs, put together, say."""
    case = examination.subject.case
    accumulator = case.method.accumulator(ranks[0].backends)
    examination.subject = replace(examination.subject, accumulator=accumulator)
    whole = [
        joined(case, list(parts)) for parts in zip(*(r.answers.outputs for r in ranks), strict=True)
    ]
    verdict = examination.judge(whole)
    for rank in ranks:
        verdict.add(rank.answers.findings)
    return verdict


def joined(case: LinearCase, parts: list[Float64]) -> Float64:
    """The whole layer's output (M, N) in the checkpoint's order, from every rank's part.

    Parts that ranks hold in common must be equal bit for bit.
    """
    if not case.options.get("reduce_results", True):
        return round_to(np.sum(parts, axis=0), KINDS[case.dtype])
    if case.kind in ("row", "replicated") or case.options.get("gather_output"):
        _require_equal(parts, "whole outputs")
        return parts[0]
    shards: list[Float64] = []
    start = 0
    for size in case.shards.values():
        shared = case.kind == "qkv" and size < RANKS * case.head_size
        width = size if shared else size // RANKS
        pieces = [part[:, start : start + width] for part in parts]
        if shared:
            _require_equal(pieces, "outputs of one shared head")
            pieces = pieces[:1]
        shards += pieces
        start += width
    return np.concatenate(shards, axis=1)


def _require_equal(parts: list[Float64], what: str) -> None:
    for rank, part in enumerate(parts):
        assert np.array_equal(part, parts[0], equal_nan=True), f"rank {rank} holds other {what}"
