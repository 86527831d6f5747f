"""Pages by hand, in any order."""

import numpy as np
import pytest

from testing.oracles.attention.paging import gather, slots_of


def test_slots_follow_the_page_table() -> None:
    table = np.array([5, 0, 9, -1])
    assert slots_of(table, 6, 2).tolist() == [10, 11, 0, 1, 18, 19]
    assert slots_of(table, 5, 2).tolist() == [10, 11, 0, 1, 18]
    assert slots_of(table, 3, 1).tolist() == [5, 0, 9]


def test_entries_past_the_last_page_are_not_read() -> None:
    pages = np.arange(12.0).reshape(3, 2, 2)
    assert gather(pages, np.array([2, 0, 10**9]), 3).tolist() == [[8, 9], [10, 11], [0, 1]]


def test_a_table_that_is_too_short_is_named() -> None:
    with pytest.raises(ValueError, match="5 tokens need 3 pages of 2, the page table has 2"):
        slots_of(np.array([1, 2]), 5, 2)
