"""Attention layers whose heads two processes share, for the test of this folder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from layers.distributed.parallel_state import initialize_model_parallel
from testing.harness.attention.case import AttentionCase, Call, make_batch
from testing.harness.attention.examine import judge
from testing.harness.attention.layer import Answer, Share, ask, build
from testing.harness.verdict import Verdict

RANKS = 2


@dataclass(frozen=True)
class Job:
    """A layer and a call, all from one seed, so that every rank has the same."""

    case: AttentionCase
    call: Call
    seed: int


def run_rank(rank: int, jobs: list[Job], cuda: bool) -> list[Answer]:
    """In a process: each layer loads all sinks, keeps its heads' and attends with its heads."""
    torch.set_num_threads(1)
    initialize_model_parallel(tensor_parallel_size=RANKS)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    return [_answer(rank, job, device) for job in jobs]


def _answer(rank: int, job: Job, device: torch.device) -> Answer:
    rng, case = np.random.default_rng(job.seed), job.case
    loaded = build(case, rng, device)
    batch = make_batch(case, job.call, rng)
    query = case.heads // RANKS
    # One key-value head is held by both.
    kv = max(1, case.kv_heads // RANKS)
    first = rank * case.kv_heads // RANKS
    share = Share(slice(rank * query, (rank + 1) * query), slice(first, first + kv))
    return ask(loaded, batch, share)


def verdict_of(job: Job, parts: list[Answer]) -> Verdict:
    """What the ranks' heads, put together, say."""
    rng = np.random.default_rng(job.seed)
    sinks = job.case.random_sinks(rng)
    batch = make_batch(job.case, job.call, rng)
    verdict = judge(batch, sinks, np.concatenate([part.output for part in parts], axis=1))
    for part in parts:
        verdict.add(part.findings)
    return verdict
