"""Where a request's tokens lie in a paged cache, from the page table alone.

Token t of a request lies at offset t mod P of page page_table[t // P], P tokens a page; the slot is
page·P + offset. Entries of a page table past a request's last page mean nothing, and are not read.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64: TypeAlias = NDArray[np.int64]


def slots_of(page_table: Int64, length: int, page_size: int) -> Int64:
    """page_table (max_pages,) of one request → (length,): the slot of each of its tokens.

    Raises:
        ValueError: the table has fewer pages than `length` tokens need.
    """
    pages = -(-length // page_size)
    if len(page_table) < pages:
        raise ValueError(
            f"{length} tokens need {pages} pages of {page_size}, the page table has "
            f"{len(page_table)}: give each request all of its pages"
        )
    token = np.arange(length)
    return np.asarray(page_table[token // page_size] * page_size + token % page_size, np.int64)


def gather(pages: NDArray[Any], page_table: Int64, length: int) -> NDArray[Any]:
    """pages (N, P, …), page_table (max_pages,) → (length, …): what one request's tokens hold."""
    flat = pages.reshape(-1, *pages.shape[2:])
    return np.asarray(flat[slots_of(page_table, length, pages.shape[1])])
