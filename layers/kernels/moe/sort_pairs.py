"""Pairs of token and expert sorted by expert, in blocks of one expert each, for grouped matmuls.

Within an expert pairs keep their order. How many blocks there are depends on the number of pairs
and experts alone, so that nothing waits for the device: some at the end may stay empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.moe.blocks import Blocks, block_count

# (ids (T, K) int32, experts of this rank, pairs in a block) -> blocks; ids outside are left out.
SortPairs = Callable[[torch.Tensor, int, int], Blocks]


def sort_torch(ids: torch.Tensor, experts: int, size: int) -> Blocks:
    """What the other backends are compared with.

    Args:
        ids: (T, K) int32; those outside 0 … experts - 1 are left out.
        experts: of this rank.
        size: pairs in a block.
    """
    pairs, device = ids.numel(), ids.device
    flat = ids.flatten().to(torch.int64)
    # Pairs that are not the rank's sort behind its last expert.
    flat = torch.where((flat < 0) | (flat >= experts), experts, flat)
    expert_of, order = flat.sort(stable=True)
    counts = torch.zeros(experts + 1, dtype=torch.int64, device=device)
    counts.scatter_add_(0, flat, torch.ones_like(flat))
    padded = (counts + size - 1) // size * size
    padded[-1] = 0
    ends, padded_ends = counts.cumsum(0), padded.cumsum(0)
    shift = (padded_ends - padded) - (ends - counts)
    count = block_count(pairs, experts, size)
    places = torch.arange(pairs, device=device) + shift[expert_of]
    places = torch.where(expert_of < experts, places, count * size)
    slots = torch.full((count * size + 1,), pairs, dtype=torch.int32, device=device)
    slots.scatter_(0, places, order.to(torch.int32))
    starts = torch.arange(0, count * size, size, device=device)
    of_block = torch.searchsorted(padded_ends[:-1].contiguous(), starts, right=True)
    of_block = torch.where(of_block < experts, of_block, -1).to(torch.int32)
    return Blocks(slots[:-1], of_block, size)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.moe.sort_pairs_triton import sort_triton

    return sort_triton


SORT_PAIRS = Operation(
    "sort_pairs",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: sort_torch),
    ),
)
