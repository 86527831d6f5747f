"""Two processes that share a model give what one should, both the same."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from testing.harness.device import pool
from testing.harness.process_group import run_in_processes
from testing.models.batch import Seen
from testing.models.examine import Examination
from testing.models.folders import reference_of
from testing.models.judge import problems_of
from testing.models.mxfp4 import Mxfp4Examination
from testing.models.parallel.ranks import RANKS, Job, run_rank
from testing.models.truth import truth_for, values_of
from testing.oracles.models.configs import DEEPSEEK, GPT_OSS, LLAMA

# One key-value head, which both ranks hold.
SHARED_HEAD = {**LLAMA, "num_key_value_heads": 1, "tie_word_embeddings": True}
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "Llama": (LLAMA, 1),
    "Llama, one head of keys, tied": (SHARED_HEAD, 1),
    "DeepSeek, experts split": (DEEPSEEK, 1),
    "DeepSeek, experts shared": (DEEPSEEK, 2),
    "gpt-oss, experts split": (GPT_OSS, 1),
    "gpt-oss, experts shared": (GPT_OSS, 2),
    "gpt-oss in MXFP4, experts split": (GPT_OSS, 1),
    "gpt-oss in MXFP4, experts shared": (GPT_OSS, 2),
}
EXAMINED = {
    name: (Mxfp4Examination if "MXFP4" in name else Examination)(config)
    for name, (config, _) in CASES.items()
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Seen]]]:
    """By case, what each rank saw; all share one world, since starting it takes seconds."""
    jobs = []
    for index, (name, (_, experts)) in enumerate(CASES.items()):
        folder: Path = EXAMINED[name].write(tmp_path_factory.mktemp(f"model{index}"))
        jobs.append(Job(folder, [i.tolist() for i in EXAMINED[name].ids], experts))
    cuda = pool() != "cpu"
    backend = "nccl" if cuda else "gloo"
    by_rank = run_in_processes(run_rank, RANKS, jobs, cuda, backend=backend, seconds=200)
    yield {
        name: [sent.seen() for (sent,) in by_case]
        for name, *by_case in zip(CASES, *by_rank, strict=True)
    }


def problems_on_two_ranks(examined: Examination, seen: Seen) -> list[str]:
    arithmetic = replace(examined.arithmetic(in_chunks=True), ranks=RANKS)
    truth = truth_for(examined.reference, examined.ids, seen, arithmetic)
    return problems_of(seen, truth, examined.reference)


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_are_one_model(seen: dict[str, list[Seen]], name: str) -> None:
    first, second = seen[name]
    assert torch.equal(first.logits, second.logits) and torch.equal(first.hidden, second.hidden)
    assert problems_on_two_ranks(EXAMINED[name], first) == []


@pytest.mark.parametrize("name", CASES)
def test_a_part_of_another_rank_would_show(seen: dict[str, list[Seen]], name: str) -> None:
    # As if the ranks had each other's halves of a row-parallel weight.
    examined, got = EXAMINED[name], seen[name][0]
    arithmetic = replace(examined.arithmetic(in_chunks=True), ranks=RANKS)
    truth = truth_for(examined.reference, examined.ids, got, arithmetic)
    tensor = "model.layers.1.self_attn.o_proj.weight"
    weight = examined.tensors[tensor]
    swapped = {tensor: weight.roll(weight.shape[1] // 2, 1)}
    altered = reference_of(examined.config, {**examined.tensors, **swapped})
    values = values_of(altered, examined.ids, got.experts, arithmetic)
    assert problems_of(got, truth.of(values), altered)
