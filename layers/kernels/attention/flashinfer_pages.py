"""A batch's pages as FlashInfer's wrappers want them: one list, request after request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata


class Pages:
    """The pages of B requests, and memory for them that a captured CUDA graph may read.

    Attributes:
        starts: (B + 1,) int32 on the host, the first query token of each request, and T.
        indptr: (B + 1,) int32 on the host, the first page of each request in `indices`.
        indices: (pages,) int32 on the device.
        last_page_lens: (B,) int32 on the host, tokens in each request's last page.
        indptr_buffer, indices_buffer, last_page_buffer: int32 on the device, with room for all
            pages that the page table can name.
    """

    def __init__(self, metadata: AttentionMetadata) -> None:
        requests = metadata.num_requests
        self.starts = _indptr(torch.tensor(metadata.query_lens_host, dtype=torch.int32))

        def room(size: int) -> torch.Tensor:
            return torch.zeros(size, dtype=torch.int32, device=metadata.page_table.device)

        self.indptr_buffer = room(requests + 1)
        self.indices_buffer = room(max(1, metadata.page_table.numel()))
        self.last_page_buffer = room(requests)

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Lists the pages of the batch as it is now; waits for nothing on the GPU."""
        size = metadata.page_size
        lengths = torch.tensor(metadata.kv_lens_host, dtype=torch.int32)
        counts = (lengths + size - 1) // size
        self.indptr = _indptr(counts)
        self.last_page_lens = lengths - (counts - 1) * size
        row = torch.repeat_interleave(counts.to(torch.int64))
        column = torch.arange(row.numel()) - self.indptr[:-1].to(torch.int64)[row]
        flat = row * metadata.page_table.shape[1] + column
        self.indices = metadata.page_table.flatten()[flat.to(metadata.page_table.device)]


def _indptr(counts: torch.Tensor) -> torch.Tensor:
    starts = torch.zeros(counts.numel() + 1, dtype=torch.int32)
    starts[1:] = torch.cumsum(counts, 0)
    return starts
