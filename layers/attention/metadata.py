"""Which tokens of a batch belong to which request, and where their keys and values lie.

Made once a step of the engine, on the host, and shared by all layers of a model. A kernel's grid
may depend on what is kept here as Python numbers; it never waits for the GPU to learn a length.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeAlias

import torch

from layers.attention.metadata_checks import (
    check_lengths,
    check_mask,
    check_pages,
    check_positions,
)

MODES = ("extend", "decode", "draft")

Lengths: TypeAlias = Sequence[int] | torch.Tensor


class Plan(Protocol):
    """What a backend works out on the host before its kernel can run."""

    def refresh(self, metadata: AttentionMetadata) -> None:
        """Works it out again for other lengths and pages, in the memory that a graph reads."""


@dataclass(frozen=True, eq=False)
class AttentionMetadata:
    """T query tokens of B requests, request after request.

    Query i of request b stands at position kv_lens[b] - query_lens[b] + i, but for draft tokens,
    which stand at `positions`. Position p of a request lies in page page_table[b, p // page_size].

    Attributes:
        mode: "extend" (any number of query tokens, causal), "decode" (one a request) or "draft"
            (S a request, which see the prefix and those of each other that `mask` says).
        qo_indptr: (B + 1,) int32, the first query token of each request, and T.
        kv_lens: (B,) int32, keys of each request, this call's tokens included.
        page_table: (B, max_pages) int32; entries past a request's pages are never read.
        page_size: tokens a page.
        positions: (T,) int64, each query token's position.
        slots: (T,) int64, page · page_size + offset, where each token's key and value go.
        mask: (B, S, S) bool of "draft": query token i sees draft token j; else None.
        query_lens_host, kv_lens_host: the lengths as Python numbers.
        plans: what backends have planned for this batch, by a key of their own.
    """

    mode: str
    qo_indptr: torch.Tensor
    kv_lens: torch.Tensor
    page_table: torch.Tensor
    page_size: int
    positions: torch.Tensor
    slots: torch.Tensor
    mask: torch.Tensor | None
    query_lens_host: tuple[int, ...]
    _kv_lens_host: list[int]
    plans: dict[Hashable, Plan] = field(default_factory=dict, repr=False)

    @classmethod
    def extend(
        cls, query_lens: Lengths, kv_lens: Lengths, page_table: torch.Tensor, page_size: int
    ) -> Self:
        """A batch of prompts, or of their parts, behind prefixes that lie in the cache already.

        Args:
            query_lens: (B,) tokens of this call, at least 1 each.
            kv_lens: (B,) tokens of the prefix and of this call together.
            page_table: (B, max_pages) int32 on the device that the layers run on.
            page_size: 1, 16, 32 or 64.

        Raises:
            ValueError: lengths that contradict each other or the page table.
        """
        return cls._made("extend", _host(query_lens), _host(kv_lens), page_table, page_size)

    @classmethod
    def decode(cls, kv_lens: Lengths, page_table: torch.Tensor, page_size: int) -> Self:
        """A batch of requests with one new token each, the last of `kv_lens`; as `extend`."""
        lengths = _host(kv_lens)
        return cls._made("decode", (1,) * len(lengths), lengths, page_table, page_size)

    @classmethod
    def draft(
        cls,
        kv_lens: Lengths,
        page_table: torch.Tensor,
        page_size: int,
        mask: torch.Tensor,
        positions: torch.Tensor | None = None,
    ) -> Self:
        """A batch of requests with S draft tokens each, a chain or a tree, to be verified.

        Args:
            kv_lens: (B,) tokens of the prefix and the S draft tokens.
            page_table, page_size: as `extend`; draft token i's slot is that of prefix + i.
            mask: (B, S, S) bool, its diagonal true, which nobody looks at where it lies on a GPU; a
                chain is the lower triangle.
            positions: (B, S) integers, each draft token's place in the text, which a sliding window
                counts by: the prefix's length plus its depth in the tree. None is prefix + i.

        Raises:
            ValueError: as `extend`, or a mask or positions of another shape or dtype.
        """
        lengths = _host(kv_lens)
        check_mask(mask, positions, len(lengths), page_table.device)
        counts = (mask.shape[1],) * len(lengths)
        made = cls._made("draft", counts, lengths, page_table, page_size, _copy(mask))
        if positions is not None:
            made.positions.copy_(positions.reshape(-1))
        return made

    @property
    def num_requests(self) -> int:
        """B."""
        return len(self.query_lens_host)

    @property
    def num_tokens(self) -> int:
        """T."""
        return int(self.positions.shape[0])

    @property
    def kv_lens_host(self) -> tuple[int, ...]:
        """The keys of each request, as Python numbers."""
        return tuple(self._kv_lens_host)

    @property
    def max_query_len(self) -> int:
        """Of the longest request."""
        return max(self.query_lens_host, default=0)

    @property
    def max_kv_len(self) -> int:
        """Keys that the page table has room for, whatever the lengths are."""
        return int(self.page_table.shape[1]) * self.page_size

    def update(
        self, kv_lens: Lengths, page_table: torch.Tensor, positions: torch.Tensor | None = None
    ) -> None:
        """Other lengths and pages for the same requests, in place: for a captured CUDA graph.

        Call it outside the graph, before its replay. Plans are made again.

        Args:
            kv_lens: (B,), as in the constructor; query lengths and the mask stay.
            page_table: of the same shape as before.
            positions: (B, S) of draft tokens, as in `draft`: a tree's have to be given again.

        Raises:
            ValueError: another number of requests or shape, or lengths without room.
        """
        lengths = _host(kv_lens)
        if len(lengths) != self.num_requests or page_table.shape != self.page_table.shape:
            raise ValueError(
                f"update() got {len(lengths)} requests and a page table {tuple(page_table.shape)}, "
                f"wanted {self.num_requests} and {tuple(self.page_table.shape)}: memory of a "
                f"captured graph cannot grow. Make new metadata, and capture again."
            )
        check_lengths(self.query_lens_host, lengths, self.max_kv_len)
        if positions is not None:
            check_positions(positions, self.num_requests, self.max_query_len)
        self._kv_lens_host[:] = lengths
        self.page_table.copy_(page_table)
        self.kv_lens.copy_(torch.tensor(lengths, dtype=torch.int32))
        places = _positions(self.query_lens_host, lengths, self.positions.device)
        # Before the plans, which count a window by them.
        self.positions.copy_(places if positions is None else positions.reshape(-1))
        self.slots.copy_(_slots(self.query_lens_host, places, self.page_table, self.page_size))
        for plan in self.plans.values():
            plan.refresh(self)

    @classmethod
    def _made(
        cls,
        mode: str,
        query_lens: tuple[int, ...],
        kv_lens: tuple[int, ...],
        page_table: torch.Tensor,
        page_size: int,
        mask: torch.Tensor | None = None,
    ) -> Self:
        check_pages(page_table, page_size, len(kv_lens))
        check_lengths(query_lens, kv_lens, page_table.shape[1] * page_size)
        device = page_table.device
        starts = [0]
        for length in query_lens:
            starts.append(starts[-1] + length)
        positions = _positions(query_lens, kv_lens, device)
        return cls(
            mode=mode,
            qo_indptr=torch.tensor(starts, dtype=torch.int32, device=device),
            kv_lens=torch.tensor(kv_lens, dtype=torch.int32, device=device),
            page_table=_copy(page_table),
            page_size=page_size,
            positions=positions,
            slots=_slots(query_lens, positions, page_table, page_size),
            mask=mask,
            query_lens_host=query_lens,
            _kv_lens_host=list(kv_lens),
        )


def _host(lengths: Lengths) -> tuple[int, ...]:
    """The one place where a length may be fetched from the GPU."""
    values = lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths
    return tuple(int(value) for value in values)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The metadata's own: slots and plans are of what it held, whatever the caller writes there."""
    return tensor.clone(memory_format=torch.contiguous_format)


def _positions(
    query_lens: Sequence[int], kv_lens: Sequence[int], device: torch.device
) -> torch.Tensor:
    parts = [
        torch.arange(keys - queries, keys)
        for queries, keys in zip(query_lens, kv_lens, strict=True)
    ]
    return torch.cat([*parts, torch.empty(0, dtype=torch.int64)]).to(device)


def _slots(
    query_lens: Sequence[int], places: torch.Tensor, page_table: torch.Tensor, page_size: int
) -> torch.Tensor:
    counts = torch.tensor(query_lens, dtype=torch.int64)
    request = torch.repeat_interleave(counts).to(places.device)
    page: torch.Tensor = page_table[request, places // page_size].to(torch.int64)
    return page * page_size + places % page_size
