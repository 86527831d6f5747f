"""What `layers.attention.metadata` refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

PAGE_SIZES = (1, 16, 32, 64)


def check_pages(page_table: torch.Tensor, page_size: int, requests: int) -> None:
    """Raises ValueError unless the table is (requests, pages) int32 and the size a known one."""
    if page_size not in PAGE_SIZES:
        raise ValueError(f"page_size is {page_size!r}, wanted one of {PAGE_SIZES}.")
    shape: Any = tuple(page_table.shape)
    if len(shape) != 2 or shape[0] != requests or page_table.dtype is not torch.int32:
        raise ValueError(
            f"page_table is {shape} {page_table.dtype}, wanted ({requests}, pages) torch.int32: "
            f"a row of page numbers for each request."
        )


def check_lengths(query_lens: Sequence[int], kv_lens: Sequence[int], room: int) -> None:
    """Raises ValueError unless 1 <= queries <= keys <= room for each request."""
    if len(query_lens) != len(kv_lens):
        raise ValueError(
            f"query_lens has {len(query_lens)} requests and kv_lens {len(kv_lens)}, wanted as many."
        )
    for index, (queries, keys) in enumerate(zip(query_lens, kv_lens, strict=True)):
        if not 1 <= queries <= keys:
            raise ValueError(
                f"request {index} has {queries} query tokens and {keys} keys, wanted at least 1 "
                f"and at most as many as keys: kv_lens counts this call's tokens too."
            )
        if keys > room:
            raise ValueError(
                f"request {index} has {keys} keys, but its row of the page table has room for "
                f"{room}. Give it more pages."
            )


def check_mask(
    mask: torch.Tensor, positions: torch.Tensor | None, requests: int, device: torch.device
) -> None:
    """Raises ValueError unless the mask is (requests, S, S) bool and positions (requests, S).

    That each draft token sees itself is looked at on the host alone: on a GPU it would wait.
    """
    shape: Any = tuple(mask.shape)
    if mask.dtype is not torch.bool or len(shape) != 3 or shape != (requests, shape[1], shape[1]):
        raise ValueError(
            f"mask is {shape} {mask.dtype}, wanted ({requests}, S, S) torch.bool: which draft "
            f"token (last) each draft token sees."
        )
    if mask.device != device:
        raise ValueError(f"mask is on {mask.device}, wanted {device}, where the page table is.")
    blind = [] if mask.is_cuda else (~mask.diagonal(dim1=1, dim2=2)).nonzero().tolist()
    if blind:
        raise ValueError(
            f"mask hides draft token {blind[0][1]} of request {blind[0][0]} from itself, wanted a "
            f"diagonal that is true."
        )
    if positions is not None:
        check_positions(positions, *shape[:2])


def check_positions(positions: torch.Tensor, requests: int, drafts: int) -> None:
    """Raises ValueError unless they are (requests, drafts)."""
    if tuple(positions.shape) != (requests, drafts):
        raise ValueError(
            f"positions is {tuple(positions.shape)}, wanted {(requests, drafts)}: the place in the "
            f"text of each request's draft tokens."
        )
