"""The calls that every backend of MLA is asked: lengths and prefixes around the edge of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testing.attention.mla.layer import DEEPSEEK, MlaCase
from testing.harness.attention.pages import ORDERS
from testing.oracles.attention.masks import tree_of
from testing.oracles.attention.mla.mla import MlaShape

PREFIXES = (0, 14, 15, 16)
PAGE_SIZES = (1, 16, 32, 64)
TREE = tree_of([-1, 0, 0, 1, 2])
"""Five drafts: a root, two after it, and one after each of these."""


def _extend(queries: Sequence[int], prefixes: Sequence[int]) -> MlaCase:
    lengths = tuple(q + p for q, p in zip(queries, prefixes, strict=True))
    return MlaCase("extend", tuple(queries), lengths)


PROMPTS = _extend((15, 1, 16, 17), (0, 0, 0, 0))
"""No prefix: the unabsorbed path."""
PREFIXED = [_extend((q,) * 4, PREFIXES) for q in (15, 16, 17)]
MIXED = _extend((17, 1, 16, 15), (0, 16, 15, 31))
DECODE = MlaCase("decode", (1,) * 6, (1, 15, 16, 17, 33, 64))
CHAIN = MlaCase("draft", (4,) * 4, (4, 18, 19, 36))
DRAFT_TREE = replace(CHAIN, query_lens=(5,) * 4, kv_lens=(5, 19, 20, 37), tree=TREE)
SHARED = replace(MIXED, query_lens=(15, 17, 1), kv_lens=(47, 49, 20), shared_pages=1)
SHARED_DECODE = MlaCase("decode", (1, 1, 1), (33, 40, 16), shared_pages=2)
LONG_DECODE = MlaCase("decode", (1, 1), (8192, 4097))
LONG_EXTEND = _extend((3, 2), (8186, 1000))


def laid_out(
    cases: Sequence[MlaCase], sizes: Sequence[int] = PAGE_SIZES, orders: Sequence[str] = ORDERS
) -> list[MlaCase]:
    """Each case on pages of each size, in orders by turns: all pairs of size and order occur."""
    return [
        replace(case, page_size=size, order=orders[(i + j) % len(orders)])
        for i, case in enumerate(cases)
        for j, size in enumerate(sizes)
        if not case.shared_pages or 1 < size <= 16
    ]


EXTEND = [PROMPTS, *PREFIXED, MIXED, SHARED]
DECODES = [DECODE, SHARED_DECODE]
DRAFTS = [CHAIN, DRAFT_TREE]
EVERY_MODE = [*EXTEND, *DECODES, *DRAFTS]


def whole_grid() -> list[MlaCase]:
    """Every call on every page size, each order of pages in turn, and once in each order."""
    cases = laid_out(EVERY_MODE) + [
        replace(case, order=order) for case in (PREFIXED[1], DECODE, CHAIN) for order in ORDERS
    ]
    return list({case.subject: case for case in cases}.values())


def on(cases: Sequence[MlaCase], backend: object, shape: MlaShape = DEEPSEEK) -> list[MlaCase]:
    """The same calls of layers of another backend and size."""
    return [replace(case, backend=backend, shape=shape) for case in cases]


def case_id(case: MlaCase) -> str:
    """Short, for pytest."""
    drafts = "" if case.drafts is None else "chain " if case.tree is None else "tree "
    shared = f" shared {case.shared_pages}" if case.shared_pages else ""
    fp8 = "" if case.fp8_scale is None else " fp8 cache"
    query = "+".join(map(str, case.query_lens))
    return (
        f"{case.method.format.name} {case.dtype} {case.path} {case.mode} {drafts}{query} of "
        f"{'+'.join(map(str, case.kv_lens))} page {case.page_size} {case.order}{shared}{fp8} "
        f"R {case.shape.rank}"
    )


def heads(shape: MlaShape, count: int) -> MlaShape:
    """The same with so many heads."""
    return replace(shape, heads=count)
