"""Blocks of pairs, each of one expert: what `layers.kernels.moe.sort_pairs` makes."""

from __future__ import annotations

from dataclasses import dataclass

import torch


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


def block_count(pairs: int, experts: int, size: int) -> int:
    """As many blocks as the worst division of the pairs over the experts fills."""
    return min(pairs, pairs // size + experts)
