"""A step as the ranks are told of it, and as the layers take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import torch

from layers.attention.metadata import AttentionMetadata

Table: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.int32]]"


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """T tokens of B texts, text after text.

    Attributes:
        mode: "extend", "decode" or "draft" (a chain of drafts), as of `AttentionMetadata`.
        input_ids: T tokens.
        query_lens: B; their sum is T.
        kv_lens: B, tokens of each text in the cache, this batch's included.
        page_table: (B, width) int32, row-major bytes; 0 past a text's pages.
        rows: of the T, those whose logits are wanted.
    """

    mode: str
    input_ids: list[int]
    query_lens: list[int]
    kv_lens: list[int]
    page_table: bytes
    rows: list[int]

    @property
    def num_texts(self) -> int:
        """B."""
        return len(self.query_lens)

    def pages(self, num_texts: int, width: int) -> torch.Tensor:
        """The page table with rows and columns of page 0 added: (num_texts, width) int32."""
        table: Table = np.zeros((num_texts, width), dtype=np.int32)
        own = np.frombuffer(self.page_table, dtype=np.int32).reshape(self.num_texts, -1)
        table[: own.shape[0], : own.shape[1]] = own
        return torch.from_numpy(table)


def pack_pages(pages: Sequence[Sequence[int]], counts: Sequence[int]) -> bytes:
    """The first `counts` pages of each text as `Batch.page_table`."""
    table: Table = np.zeros((len(pages), max(counts)), dtype=np.int32)
    for row, (own, count) in enumerate(zip(pages, counts, strict=True)):
        table[row, :count] = own[:count]
    packed: bytes = table.tobytes()
    return packed


def metadata_of(batch: Batch, page_size: int, device: torch.device) -> AttentionMetadata:
    """The layers' view of a batch, on their device."""
    table = np.frombuffer(batch.page_table, dtype=np.int32).reshape(batch.num_texts, -1)
    pages = torch.from_numpy(table.copy()).to(device)
    return make_metadata(batch.mode, batch.query_lens, batch.kv_lens, pages, page_size)


def make_metadata(
    mode: str,
    query_lens: Sequence[int],
    kv_lens: Sequence[int],
    pages: torch.Tensor,
    page_size: int,
) -> AttentionMetadata:
    """Metadata of a mode; drafts are a chain, each seeing those before it.

    Args:
        mode: of `Batch`.
        query_lens, kv_lens: (B,).
        pages: (B, width) int32 on the layers' device.
        page_size: tokens a page.
    """
    if mode == "decode":
        return AttentionMetadata.decode(kv_lens, pages, page_size)
    if mode == "draft":
        size = query_lens[0]
        chain = torch.ones(size, size, dtype=torch.bool, device=pages.device).tril()
        mask = chain.expand(len(kv_lens), size, size)
        return AttentionMetadata.draft(kv_lens, pages, page_size, mask)
    return AttentionMetadata.extend(query_lens, kv_lens, pages, page_size)
