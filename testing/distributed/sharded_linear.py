"""Tensor-parallel layers in two processes of one world, for the tests of this folder."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from layers.distributed.parallel_state import initialize_model_parallel
from testing.harness.linear import LinearCase, build
from testing.harness.linear_probes import kind_of
from testing.oracles.arrays import Float64
from testing.oracles.bounds import Noise, float64_noise, no_noise, rounding_noise
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.matmul import blocked_matmul, matmul
from testing.oracles.statistics import Comparison

RANKS = 2


@dataclass(frozen=True)
class Job:
    """A layer to build and the x to give it, whole; each rank takes its part."""

    case: LinearCase
    checkpoint: LinearCheckpoint
    x: Float64


def new_job(case: LinearCase, seed: int) -> Job:
    """A random checkpoint, and activations that each rank's quantiser keeps exactly."""
    rng = np.random.default_rng(seed)
    checkpoint = case.checkpoint(rng)
    widths = [case.k // RANKS] * RANKS if case.kind == "row" else [case.k]
    x = [checkpoint.format.lossless(rng, case.m, width) for width in widths]
    return Job(case, checkpoint, np.concatenate(x, axis=1))


@dataclass(frozen=True)
class Answer:
    """One rank's part of a layer's output, the kernels that gave it, where, and in what time."""

    output: Float64
    backends: dict[str, str]
    device: str
    seconds: float


def run_rank(rank: int, jobs: list[Job], cuda: bool) -> list[Answer]:
    """In a process: each layer loads the whole checkpoint, keeps its part and multiplies."""
    torch.set_num_threads(1)
    initialize_model_parallel(tensor_parallel_size=RANKS)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    answers = []
    for job in jobs:
        start = time.perf_counter()
        loaded = build(job.case, job.checkpoint, device)
        output = loaded(_rows_input(rank, job))
        seconds = time.perf_counter() - start
        answers.append(Answer(output, loaded.backends, loaded.device_name, seconds))
    return answers


def joined(case: LinearCase, answers: list[Answer]) -> Float64:
    """The whole layer's output (M, N) in the checkpoint's order, from every rank's part.

    Parts that ranks hold in common must be equal bit for bit.
    """
    parts = [answer.output for answer in answers]
    if case.kind in ("row", "replicated"):
        assert np.array_equal(parts[0], parts[1]), "ranks hold different sums"
        return parts[0]
    shards: list[Float64] = []
    start = 0
    for size in case.shards.values():
        shared = case.kind == "qkv" and size < RANKS * case.head_size
        width = size if shared else size // RANKS
        pieces = [part[:, start : start + width] for part in parts]
        if shared:
            assert np.array_equal(*pieces), "ranks hold different outputs of one shared head"
            pieces = pieces[:1]
        shards += pieces
        start += width
    return np.concatenate(shards, axis=1)


def compare_with_unsharded(job: Job, got: Float64) -> Comparison:
    """The joined output beside the unsharded product.

    A row-parallel layer rounds each rank's partial sum to the output type before adding: half an
    ulp of each partial sum on top of the error model.
    """
    checkpoint, x = job.checkpoint, job.x
    parts = blocked_matmul(x, checkpoint.weight)
    bias = checkpoint.bias
    exact = parts.sum(axis=0) + (0.0 if bias is None else bias)
    noise = checkpoint.format.noise(parts, bias) + float64_noise(x, checkpoint.weight)
    if job.case.kind == "row":
        noise = noise + _partial_sums(job)
    return Comparison(got, parts, exact, noise, kind_of(job.case), checkpoint.layout)


def _rows_input(rank: int, job: Job) -> Float64:
    if job.case.kind != "row":
        return job.x
    width = job.case.k // RANKS
    return job.x[:, rank * width : (rank + 1) * width]


def _partial_sums(job: Job) -> Noise:
    width = job.case.k // RANKS
    total = no_noise((job.case.m, job.checkpoint.layout.n))
    for rank in range(RANKS):
        columns = slice(rank * width, (rank + 1) * width)
        bias = job.checkpoint.bias if rank == 0 else None
        partial = matmul(job.x[:, columns], job.checkpoint.weight[:, columns], bias)
        total = total + rounding_noise(partial, kind_of(job.case))
    return total
