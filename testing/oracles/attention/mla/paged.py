"""Which cached tokens each query of a batch sees: page tables and masks, from their definition."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Mask
from testing.oracles.attention.masks import causal, drafts
from testing.oracles.attention.paging import Int64, slots_of


@dataclass(frozen=True)
class Paged:
    """Requests of different lengths over one pool of pages.

    query_lens, kv_lens: (B,) tokens of this call, and of the whole context with them.
    page_table: (B, P); entry p holds the page of positions p·page_size and following. Entries past
        a request's last page mean nothing.
    trees: (B, S, S) bool for a call of S draft tokens a request: [b, i, j] says that draft i sees
        draft j. None: causal.
    """

    query_lens: Sequence[int]
    kv_lens: Sequence[int]
    page_table: Int64
    page_size: int
    trees: Mask | None = None

    @property
    def requests(self) -> range:
        """Their indices."""
        return range(len(self.kv_lens))

    def rows(self, request: int) -> slice:
        """Where a request's tokens lie among those of the call."""
        start = sum(self.query_lens[:request])
        return slice(start, start + self.query_lens[request])

    def slots(self, request: int) -> Int64:
        """(kv_len,) page·page_size + offset of every position of a request."""
        return slots_of(self.page_table[request], self.kv_lens[request], self.page_size)

    def new_slots(self) -> Int64:
        """(T,) where this call's tokens are written."""
        new = [self.slots(b)[self.kv_lens[b] - self.query_lens[b] :] for b in self.requests]
        return np.concatenate(new) if new else np.zeros(0, np.int64)

    def visible(self, request: int) -> Mask:
        """(query_len, kv_len): whether a query sees a position."""
        if self.trees is not None:
            return drafts(self.trees[request], self.kv_lens[request])
        return causal(self.query_lens[request], self.kv_lens[request])
