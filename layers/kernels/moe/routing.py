"""The pairs of token and chosen expert that a MoE layer multiplies.

Pair t · K + k is token t's k-th choice. Between its two matmuls a layer's rows are pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from layers.kernels.moe.blocks import Blocks
from layers.kernels.moe.sort_pairs import SortPairs, sort_torch
from layers.sharding import Span


@dataclass(frozen=True)
class Routing:
    """Which of the rank's experts each pair goes to.

    Attributes:
        ids: (T, K) int32, counted from the rank's first expert; -1 for another rank's.
        experts: experts of this rank.
        is_complete: the rank holds all experts, so that no id is -1.
        sort: a backend of `layers.kernels.moe.sort_pairs`.
    """

    ids: torch.Tensor
    experts: int
    is_complete: bool = True
    sort: SortPairs = sort_torch
    _blocks: dict[int, Blocks] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, ids: torch.Tensor, held: Span, sort: SortPairs = sort_torch) -> Routing:
        """From ids (T, K) int32 of all experts, and those that the rank holds."""
        if held.size == held.total:
            return cls(ids, held.size, sort=sort)
        local = ids - held.start
        is_own = (local >= 0) & (local < held.size)
        return cls(torch.where(is_own, local, -1), held.size, is_complete=False, sort=sort)

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
            self._blocks[size] = self.sort(self.ids, self.experts, size)
        return self._blocks[size]
