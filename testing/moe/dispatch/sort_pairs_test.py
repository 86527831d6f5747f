"""Pairs of token and expert, sorted into blocks of one expert each, on every backend."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from layers.kernels.capability import Problem, select_backend
from layers.kernels.moe.blocks import Blocks
from layers.kernels.moe.sort_pairs import SORT_PAIRS
from testing.harness.device import device, promised

BACKENDS = {"cpu": ["torch"], "gpu": ["triton", "torch"]}
# Tokens, choices, experts, pairs in a block.
SHAPES = [(1, 1, 1, 16), (5, 2, 3, 16), (7, 4, 2, 16), (40, 8, 256, 16), (700, 2, 4, 64)]


def sort(backend: str, ids: torch.Tensor, experts: int, size: int) -> Blocks:
    chosen = select_backend(SORT_PAIRS, device(), Problem(torch.bfloat16, 128), backend)
    blocks: Blocks = chosen.load()(ids.to(device()), experts, size)
    return blocks


def pairs_by_expert(blocks: Blocks, pairs: int) -> dict[int, list[int]]:
    """The pairs of each expert in the order of its blocks, without empty slots."""
    found: dict[int, list[int]] = defaultdict(list)
    by_block = blocks.pairs.view(-1, blocks.size).tolist()
    for expert, row in zip(blocks.experts.tolist(), by_block, strict=True):
        if expert >= 0:
            used = [pair for pair in row if pair != pairs]
            assert row == used + [pairs] * (blocks.size - len(used)), "a block fills from its start"
            found[expert] += used
    return found


@pytest.mark.parametrize("backend", promised(BACKENDS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lowest", [0, -1], ids=["all experts", "some on other ranks"])
def test_each_pair_lies_in_a_block_of_its_expert(
    backend: str, shape: tuple[int, int, int, int], lowest: int
) -> None:
    tokens, choices, experts, size = shape
    generator = torch.Generator().manual_seed(tokens)
    ids = torch.randint(lowest, experts, (tokens, choices), generator=generator, dtype=torch.int32)

    blocks = sort(backend, ids, experts, size)

    wanted: dict[int, list[int]] = defaultdict(list)
    for pair, expert in enumerate(ids.flatten().tolist()):
        if expert >= 0:
            wanted[expert].append(pair)
    assert pairs_by_expert(blocks, ids.numel()) == wanted


@pytest.mark.parametrize("backend", promised(BACKENDS))
def test_one_expert_may_take_all_tokens(backend: str) -> None:
    ids = torch.full((33, 1), 2, dtype=torch.int32)

    blocks = sort(backend, ids, 5, 16)

    assert blocks.experts.tolist() == [2, 2, 2, -1, -1, -1, -1]
    assert pairs_by_expert(blocks, 33) == {2: list(range(33))}


@pytest.mark.parametrize("backend", promised(BACKENDS))
def test_a_rank_whose_experts_nobody_chose_has_only_empty_blocks(backend: str) -> None:
    ids = torch.full((3, 2), -1, dtype=torch.int32)

    blocks = sort(backend, ids, 2, 16)

    assert set(blocks.experts.tolist()) == {-1}
