"""Which keys a query sees: causal, a window, and the trees of speculative drafts.

A request has L keys, of which the last S are this call's own, and S queries. A key of the prefix
stands at its index, a key of this call where its query does.
"""

import numpy as np

from testing.oracles.arrays import Mask
from testing.oracles.attention.paging import Int64


def causal(queries: int, keys: int) -> Mask:
    """(S, L): query i, at position L - S + i, sees the keys up to itself."""
    return np.asarray(np.arange(keys) <= keys - queries + np.arange(queries)[:, None])


def drafts(tree: Mask, keys: int) -> Mask:
    """tree (S, S), [i, j]: draft i sees draft j → (S, L): the whole prefix and those drafts."""
    queries = len(tree)
    return np.concatenate([np.ones((queries, keys - queries), bool), tree], axis=1)


def in_window(query_positions: Int64, key_positions: Int64, window: int) -> Mask:
    """(S, L): position p sees the `window` positions p - window < j, itself included.

    What lies ahead of p is no business of the window.
    """
    return np.asarray(query_positions[:, None] - key_positions[None, :] < window)


def chain(queries: int) -> Mask:
    """(S, S): each draft sees those before it and itself."""
    return np.tril(np.ones((queries, queries), bool))


def tree_of(parents: list[int]) -> Mask:
    """(S, S): each draft sees itself and its ancestors; parents[i] < i, or -1 for a root."""
    mask: Mask = np.eye(len(parents), dtype=bool)
    for draft, parent in enumerate(parents):
        if parent >= draft:
            raise ValueError(f"draft {draft} has the parent {parent}, wanted one before it, or -1")
        if parent >= 0:
            mask[draft] |= mask[parent]
    return mask


def depths(tree: Mask) -> Int64:
    """(S,): how many ancestors each draft sees, itself left out: its depth from 0."""
    return np.asarray(tree.sum(axis=1) - 1, np.int64)
