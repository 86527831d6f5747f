"""Paged memory of which nothing may be read or written but what a request owns.

Shared by the tests of all attention layers that page their cache (dense, sliding window, MLA):

    plan = plan_pages(rng, lengths=[16, 31], page_size=16, order="shuffled")
    pages = nan_pages(plan, rows=[k0, k1], known=[15, 14], dtype=torch.bfloat16, device=device)
    before = frozen(pages)
    … forward, which writes tokens 15 of request 0 and 14..30 of request 1 …
    findings = check_writes("k", plan, before, pages, written, wanted)

`rows[b]` (L_b, …) are all of a request's tokens, this call's too; the first `known[b]` of them lie
in the pages before the call. Every other slot is NaN: those of this call, those past a request's
length, and all of the pages that no request owns (the first and the last page among them). A kernel
that reads one gives NaN, since 0·NaN is NaN. Entries of a page table past a request's pages name
such pages, or none (`garbage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from testing.harness.verdict import Finding
from testing.oracles.arrays import Mask
from testing.oracles.attention.paging import Int64, slots_of

ORDERS = ("ascending", "descending", "interleaved", "shuffled")
FP8_NAN = 0x7F
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


@dataclass(frozen=True)
class PagePlan:
    """Which pages each request owns.

    tables: (B, max_pages) int64; past a request's pages stands what may not be read.
    lengths: tokens of each request, this call's included.
    """

    page_size: int
    num_pages: int
    tables: Int64
    lengths: tuple[int, ...]

    def slots(self, request: int, start: int = 0) -> Int64:
        """Slots of a request's tokens from `start` on."""
        return slots_of(self.tables[request], self.lengths[request], self.page_size)[start:]

    def owner(self, slot: int) -> str:
        """`token 14 of request 2`, or which page's slot it is that nobody owns."""
        for request in range(len(self.lengths)):
            token = (self.slots(request) == slot).nonzero()[0]
            if len(token):
                return f"token {token[0]} of request {request}"
        page, offset = divmod(slot, self.page_size)
        for request, length in enumerate(self.lengths):
            if page in self.tables[request, : -(-length // self.page_size)]:
                return f"slot {offset} of the last page of request {request}, past its length"
        return f"slot {offset} of page {page}, which no request owns"

    def table(self, device: torch.device | str) -> torch.Tensor:
        """(B, max_pages) int32."""
        return torch.from_numpy(self.tables.astype(np.int32)).to(device)


def plan_pages(
    rng: np.random.Generator,
    lengths: Sequence[int],
    page_size: int,
    order: str = "shuffled",
    shared_pages: int = 0,
    garbage: int | None = None,
) -> PagePlan:
    """Pages for requests of these lengths.

    order: of ORDERS; of the numbers of the pages within the pool.
    shared_pages: the first pages of requests 0 and 1 that are the same.
    garbage: what stands past a request's pages; None: a page that nobody owns, or -1.
    """
    counts = [-(-length // page_size) for length in lengths]
    pages = _numbers(rng, counts, order)
    num_pages = 2 + sum(counts) + len(counts)
    owned = {page for row in pages for page in row}
    free = [page for page in range(num_pages) if page not in owned]
    tables: Int64 = np.empty((len(counts), max(counts) + 2), np.int64)
    for row, mine in zip(tables, pages, strict=True):
        row[:] = rng.choice([*free, -1], len(row)) if garbage is None else garbage
        row[: len(mine)] = mine
    if shared_pages:
        tables[1, :shared_pages] = tables[0, :shared_pages]
    return PagePlan(page_size, num_pages, tables, tuple(lengths))


def _numbers(rng: np.random.Generator, counts: list[int], order: str) -> list[list[int]]:
    """Page numbers of each request; page 0, the last, and one a request are left to nobody."""
    total = sum(counts)
    if order == "shuffled":
        free = iter((1 + rng.permutation(total + len(counts)))[:total].tolist())
        return [[next(free) for _ in range(count)] for count in counts]
    if order == "interleaved":
        turns = [(i, b) for b, count in enumerate(counts) for i in range(count)]
        place = {turn: number for number, turn in enumerate(sorted(turns), 1)}
        return [[place[i, b] for i in range(count)] for b, count in enumerate(counts)]
    if order not in ORDERS:
        raise ValueError(f"order is '{order}', wanted one of {', '.join(ORDERS)}")
    # A free page behind each request's.
    starts = np.cumsum([1, *(count + 1 for count in counts)])
    rows = [list(range(start, start + n)) for start, n in zip(starts[:-1], counts, strict=True)]
    if order == "descending":
        last = total + len(counts) + 1
        rows = [[last - page for page in row] for row in rows]
    return rows


def nan_pages(
    plan: PagePlan,
    rows: Sequence[torch.Tensor],
    known: Sequence[int],
    dtype: torch.dtype,
    device: torch.device | str,
) -> torch.Tensor:
    """(num_pages, page_size, …) with the first known[b] of rows[b] (L_b, …) in place, else NaN.

    rows: of `dtype`; codes of float8_e4m3fn may be given as uint8.
    """
    shape = (plan.num_pages * plan.page_size, *rows[0].shape[1:])
    bits = _BITS[dtype.itemsize]
    flat = torch.full(shape, float("nan"), dtype=torch.float32).to(dtype).view(bits)
    for request, (row, count) in enumerate(zip(rows, known, strict=True)):
        slots = torch.from_numpy(plan.slots(request)[:count])
        flat[slots] = row[:count].cpu().view(bits)
    pages = flat.view(dtype).reshape(plan.num_pages, plan.page_size, *shape[1:])
    return pages.to(device)


def frozen(pages: torch.Tensor) -> NDArray[Any]:
    """(slots, …): the bits of pages as they are now."""
    bits = pages.detach().cpu().contiguous().view(_BITS[pages.element_size()])
    return np.array(bits.flatten(0, 1).numpy())


def check_writes(
    what: str,
    plan: PagePlan,
    before: NDArray[Any],
    after: torch.Tensor,
    written: Int64,
    wanted: torch.Tensor,
    check: str = "cache",
) -> list[Finding]:
    """The call has written exactly its own slots, with exactly these values.

    what: the pages' name, such as "k". before: by `frozen`. written: (T,) slots.
    wanted: (T, …) of the pages' dtype, or uint8 codes of it.
    """
    now = frozen(after)
    findings = []
    want = wanted.detach().cpu().contiguous().view(_BITS[after.element_size()]).numpy()
    wrong = _rows_differ(now[written], want)
    if wrong.any():
        token = int(wrong.nonzero()[0][0])
        place = plan.owner(int(written[token]))
        untouched = (now[written][wrong] == before[written][wrong]).all()
        message = (
            f"{wrong.sum()} of {len(wrong)} tokens of this call are "
            f"{'not written' if untouched else 'wrong'} in {what}, the first at {place}"
        )
        findings.append(Finding(check, "written", f"{what}, {place}", message, float(wrong.sum())))
    others: Mask = np.ones(len(before), bool)
    others[written] = False
    changed = _rows_differ(now, before) & others
    if changed.any():
        place = plan.owner(int(changed.nonzero()[0][0]))
        message = f"{changed.sum()} slots of {what} were changed besides this call's, first {place}"
        findings.append(Finding(check, "spilt", f"{what}, {place}", message, float(changed.sum())))
    return findings


def _rows_differ(a: NDArray[Any], b: NDArray[Any]) -> Mask:
    return np.asarray((a != b).reshape(len(a), -1).any(axis=1))
