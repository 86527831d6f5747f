"""MoE layers in two processes of one world, which share the experts or split each of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.blockwise_int8
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from layers.distributed.parallel_state import destroy_model_parallel, initialize_model_parallel
from testing.harness.moe.layer import Answers, MoeCase, Question, build
from testing.oracles.moe.checkpoints import MoeCheckpoint

RANKS = 2


@dataclass(frozen=True)
class Job:
    """A layer to build and what to ask it; every rank sees all of both.

    splits: the ranks split each expert; else each holds half of the experts.
    """

    case: MoeCase
    checkpoint: MoeCheckpoint
    questions: list[Question]
    splits: bool


def run_rank(rank: int, jobs: list[Job], cuda: bool) -> list[Answers]:
    """In a process: each layer loads the whole checkpoint, keeps its part and answers."""
    torch.set_num_threads(1)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    answers = []
    for job in jobs:
        destroy_model_parallel()
        experts = 1 if job.splits else RANKS
        initialize_model_parallel(tensor_parallel_size=RANKS, expert_parallel_size=experts)
        answers.append(build(job.case, job.checkpoint, device).answer(job.questions))
    return answers
