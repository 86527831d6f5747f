# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.moe.sort_pairs`: one program an expert, in two passes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.moe.blocks import Blocks, block_count

CHUNK = 1024


@triton.jit(do_not_specialize=["pair_count"])
def _count(ids_ptr, counts_ptr, pair_count, CHUNK: tl.constexpr):
    expert = tl.program_id(0)
    pair = tl.arange(0, CHUNK)
    found = tl.zeros((CHUNK,), dtype=tl.int32)
    for start in range(0, pair_count, CHUNK):
        ids = tl.load(ids_ptr + start + pair, mask=start + pair < pair_count, other=-1)
        found += (ids == expert).to(tl.int32)
    tl.store(counts_ptr + expert, tl.sum(found, axis=0))


@triton.jit(do_not_specialize=["pair_count", "expert_count"])
def _place(
    ids_ptr,
    counts_ptr,
    pairs_ptr,
    experts_ptr,
    pair_count,
    expert_count,
    SIZE: tl.constexpr,
    EXPERT_SLOTS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    expert = tl.program_id(0)
    others = tl.arange(0, EXPERT_SLOTS)
    blocks = tl.load(counts_ptr + others, mask=others < expert_count, other=0)
    blocks = (blocks + SIZE - 1) // SIZE
    first = tl.sum(tl.where(others < expert, blocks, 0), axis=0)
    own = tl.sum(tl.where(others == expert, blocks, 0), axis=0)
    pair = tl.arange(0, CHUNK)
    place = first * SIZE
    for start in range(0, pair_count, CHUNK):
        ids = tl.load(ids_ptr + start + pair, mask=start + pair < pair_count, other=-1)
        is_own = (ids == expert).to(tl.int32)
        places = place + tl.cumsum(is_own, axis=0) - 1
        tl.store(pairs_ptr + places, start + pair, mask=is_own == 1)
        place += tl.sum(is_own, axis=0)
    empty = place + tl.arange(0, SIZE)
    tl.store(
        pairs_ptr + empty,
        tl.zeros((SIZE,), dtype=tl.int32) + pair_count,
        mask=empty < (first + own) * SIZE,
    )
    for block in range(0, own, SIZE):
        offset = block + tl.arange(0, SIZE)
        tl.store(
            experts_ptr + first + offset,
            tl.zeros((SIZE,), dtype=tl.int32) + expert,
            mask=offset < own,
        )


def sort_triton(ids: torch.Tensor, experts: int, size: int) -> Blocks:
    """As `sort_pairs.sort_torch`, on a GPU; the pairs of a block without an expert are not set."""
    pairs = ids.numel()
    count = block_count(pairs, experts, size)
    of_block = torch.full((count,), -1, dtype=torch.int32, device=ids.device)
    slots = torch.empty((count * size,), dtype=torch.int32, device=ids.device)
    counts = torch.empty((experts,), dtype=torch.int32, device=ids.device)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(ids):
        _count[(experts,)](ids, counts, pairs, CHUNK=CHUNK)
        _place[(experts,)](
            *(ids, counts, slots, of_block, pairs, experts),
            SIZE=size,
            EXPERT_SLOTS=triton.next_power_of_2(experts),
            CHUNK=CHUNK,
        )
    return Blocks(slots, of_block, size)
