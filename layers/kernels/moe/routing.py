"""The pairs of token and chosen expert that a MoE layer multiplies, sorted by expert.

Pair t · K + k is token t's k-th choice. Between its two matmuls a layer's rows are pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from layers.sharding import Span


@dataclass(frozen=True)
class Blocks:
    """Pairs sorted by expert, each expert's padded to whole blocks, for kernels.

    Attributes:
        pairs: (blocks · size,) int32; the number of pairs where a slot is empty.
        experts: (blocks,) int32, the expert of a block; -1 for a block without pairs.
        size: pairs in a block.
    """

    pairs: torch.Tensor
    experts: torch.Tensor
    size: int


@dataclass(frozen=True)
class Routing:
    """Which of the rank's experts each pair goes to.

    Attributes:
        ids: (T, K) int32, counted from the rank's first expert; -1 for another rank's.
        experts: experts of this rank.
        is_complete: the rank holds all experts, so that no id is -1.
    """

    ids: torch.Tensor
    experts: int
    is_complete: bool = True
    _blocks: dict[int, Blocks] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, ids: torch.Tensor, held: Span) -> Routing:
        """From ids (T, K) int32 of all experts, and those that the rank holds."""
        if held.size == held.total:
            return cls(ids, held.size)
        local = ids - held.start
        is_own = (local >= 0) & (local < held.size)
        return cls(torch.where(is_own, local, -1), held.size, is_complete=False)

    @property
    def pairs(self) -> int:
        """T · K."""
        return int(self.ids.numel())

    def pairs_per_row(self, a: torch.Tensor) -> int:
        """How many pairs share a row of `a`: K if its rows are tokens, 1 if they are pairs."""
        return self.pairs // int(a.shape[0])

    def by_expert(self) -> list[torch.Tensor]:
        """For each expert of the rank the pairs that go to it, rising; waits for the device."""
        flat = self.ids.flatten()
        return [(flat == expert).nonzero().flatten() for expert in range(self.experts)]

    def new_rows(self, columns: int, device: torch.device) -> torch.Tensor:
        """Float32 memory (T · K, columns) for a matmul's result; other ranks' pairs are 0."""
        allocate = torch.empty if self.is_complete else torch.zeros
        return allocate((self.pairs, columns), dtype=torch.float32, device=device)

    def blocks(self, size: int) -> Blocks:
        """The pairs in blocks of `size`; computed once a size, without waiting for the device."""
        if size not in self._blocks:
            self._blocks[size] = self._sort(size)
        return self._blocks[size]

    def _sort(self, size: int) -> Blocks:
        pairs, device = self.pairs, self.ids.device
        flat = self.ids.flatten().to(torch.int64)
        # Pairs that are not the rank's sort behind its last expert.
        flat = torch.where((flat < 0) | (flat >= self.experts), self.experts, flat)
        expert_of, order = flat.sort(stable=True)
        ones = torch.ones_like(flat)
        counts = torch.zeros(self.experts + 1, dtype=torch.int64, device=device)
        counts.scatter_add_(0, flat, ones)
        padded = (counts + size - 1) // size * size
        padded[-1] = 0
        ends, padded_ends = counts.cumsum(0), padded.cumsum(0)
        shift = (padded_ends - padded) - (ends - counts)
        # Enough for the worst division of the pairs, so that no shape depends on values.
        blocks = min(pairs, pairs // size + self.experts)
        places = torch.arange(pairs, device=device) + shift[expert_of]
        places = torch.where(expert_of < self.experts, places, blocks * size)
        slots = torch.full((blocks * size + 1,), pairs, dtype=torch.int32, device=device)
        slots.scatter_(0, places, order.to(torch.int32))
        starts = torch.arange(0, blocks * size, size, device=device)
        experts = torch.searchsorted(padded_ends[:-1].contiguous(), starts, right=True)
        experts = torch.where(experts < self.experts, experts, -1).to(torch.int32)
        return Blocks(slots[:-1], experts, size)
