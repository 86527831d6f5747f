"""Experts that several ranks split: each holds a part of every expert's intermediate values."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.formats import ActivationRule
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.routing import Choice


class SplitCheckpoint(MoeCheckpoint):
    """The same layer with `ranks` times as many experts, each a rank's part of one.

    Part r of expert e is expert r·E + e: rows of its gate and up, and columns of w2, from r·I/ranks
    on. A rank quantises its part of h by itself. The bias of w2 is the first rank's.
    """

    def __init__(self, whole: MoeCheckpoint, ranks: int) -> None:
        count = len(whole.experts)
        super().__init__(
            whole.format, whole.experts * ranks, whole.biases * ranks, whole.activation
        )
        # The dataclass is frozen.
        object.__setattr__(self, "_whole", whole)
        object.__setattr__(self, "_places", [(e, r) for r in range(ranks) for e in range(count)])
        object.__setattr__(self, "_size", whole.intermediate_size // ranks)

    _whole: MoeCheckpoint
    _places: list[tuple[int, int]]
    _size: int

    @cached_property
    def w13(self) -> Float64:
        """(ranks·E, 2I/ranks, H)."""
        gates, ups = np.split(self._whole.w13, 2, axis=1)
        parts = [(gates[e, self._of(r)], ups[e, self._of(r)]) for e, r in self._places]
        return np.stack([np.concatenate(pair) for pair in parts])

    @cached_property
    def w2(self) -> Float64:
        """(ranks·E, H, I/ranks)."""
        return np.stack([self._whole.w2[e][:, self._of(r)] for e, r in self._places])

    def bias13(self, expert: int) -> Float64 | None:
        """(2I/ranks,), or None."""
        e, r = self._places[expert]
        bias = self._whole.bias13(e)
        if bias is None:
            return None
        return np.concatenate([half[self._of(r)] for half in np.split(bias, 2)])

    def bias2(self, expert: int) -> Float64 | None:
        """(H,), or None."""
        e, r = self._places[expert]
        return None if r else self._whole.bias2(e)

    @cached_property
    def input_rule(self) -> ActivationRule:
        """That of the whole layer."""
        return self._whole.input_rule

    @cached_property
    def hidden_rules(self) -> tuple[ActivationRule, ...]:
        """That of the expert, of which each rank sees a part of h."""
        return tuple(self._whole.hidden_rules[e] for e, _ in self._places)

    def split_choice(self, choice: Choice) -> Choice:
        """Every part of a token's experts, with the weight of the whole."""
        count = len(self._whole.experts)
        ranks = len(self._places) // count
        return Choice(
            np.concatenate([choice.ids + r * count for r in range(ranks)], axis=1),
            np.tile(choice.weights, (1, ranks)),
            np.tile(choice.error, (1, ranks)),
        )

    def _of(self, rank: int) -> slice:
        return slice(rank * self._size, (rank + 1) * self._size)
