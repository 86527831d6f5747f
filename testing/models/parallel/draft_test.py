"""Two processes that share a model draft what one should, both the same."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from testing.harness.device import pool
from testing.harness.process_group import run_in_processes
from testing.models.batch import Seen, previous
from testing.models.examine import Examination
from testing.models.folders import reference_of
from testing.models.judge import problems_of
from testing.models.parallel.ranks import RANKS, Job, run_rank
from testing.models.truth import truth_of, values_of
from testing.oracles.models.configs import DEEPSEEK

CASES = {"experts split": 1, "experts shared": 2}
EXAMINED = Examination(DEEPSEEK)
PREFIX = "model.layers.2."


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[list[Seen]]]]:
    """By case, of each rank the batch and its drafts."""
    folder = EXAMINED.write(tmp_path_factory.mktemp("model"))
    ids = [i.tolist() for i in EXAMINED.ids]
    jobs = [Job(folder, ids, experts, drafts=True) for experts in CASES.values()]
    cuda = pool() != "cpu"
    backend = "nccl" if cuda else "gloo"
    by_rank = run_in_processes(run_rank, RANKS, jobs, cuda, backend=backend, seconds=200)
    yield {
        name: [[sent.seen() for sent in of_rank] for of_rank in by_case]
        for name, *by_case in zip(CASES, *by_rank, strict=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_drafts_of_two_ranks_are_those_of_one_model(
    seen: dict[str, list[list[Seen]]], name: str
) -> None:
    (batch, drafts), (_, others) = seen[name]
    assert torch.equal(drafts.logits, others.logits) and torch.equal(drafts.hidden, others.hidden)
    given = [part.double() for part in previous(batch)]
    arithmetic = replace(EXAMINED.arithmetic(in_chunks=True), ranks=RANKS)
    reference, ids = EXAMINED.reference, EXAMINED.ids
    truth = truth_of(reference, ids, drafts.experts, arithmetic, given)
    assert problems_of(drafts, truth, reference, of_draft=True) == []
    # As if the ranks had each other's halves of what they share.
    for layer in ("self_attn.o_proj", "mlp.shared_experts.down_proj", "self_attn.q_b_proj"):
        tensor = f"{PREFIX}{layer}.weight"
        weight = EXAMINED.tensors[tensor]
        dim = 0 if layer.endswith("q_b_proj") else 1
        swapped = weight.roll(weight.shape[dim] // 2, dim)
        altered = reference_of(DEEPSEEK, {**EXAMINED.tensors, tensor: swapped})
        values = values_of(altered, ids, drafts.experts, arithmetic, draft_of=given)
        assert problems_of(drafts, truth.of(values), altered, of_draft=True), layer
