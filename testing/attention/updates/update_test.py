"""Metadata brought up to date is what new metadata would be, in the same memory, plans with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from layers.attention.metadata import AttentionMetadata

PAGE = 16
FIRST, SECOND = [20, 33], [48, 18]
TABLE = torch.tensor([[5, 2, 9], [1, 7, 3]], dtype=torch.int32)
OTHER = torch.tensor([[4, 8, 6], [0, 11, -1]], dtype=torch.int32)
TREE = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool).expand(2, 3, 3)
# Prefixes 17, 30 and 45, 15; both children stand one behind their root.
BEFORE, AFTER = (torch.tensor([[p, p + 1, p + 1] for p in ps]) for ps in ((17, 30), (45, 15)))


def decode(lengths: list[int], table: torch.Tensor) -> AttentionMetadata:
    return AttentionMetadata.decode(lengths, table, PAGE)


def extend(lengths: list[int], table: torch.Tensor) -> AttentionMetadata:
    return AttentionMetadata.extend([5, 2], lengths, table, PAGE)


def chain(lengths: list[int], table: torch.Tensor) -> AttentionMetadata:
    return AttentionMetadata.draft(lengths, table, PAGE, TREE)


@dataclass
class Seen:
    """A plan that keeps what it was made of."""

    parts: list[tuple[tuple[int, ...], list[int], list[int]]] = field(default_factory=list)

    def refresh(self, metadata: AttentionMetadata) -> None:
        pages = metadata.page_table.flatten().tolist()
        self.parts.append((metadata.kv_lens_host, metadata.positions.tolist(), pages))


def require_same(got: AttentionMetadata, want: AttentionMetadata) -> None:
    assert got.kv_lens_host == want.kv_lens_host
    for name in ("qo_indptr", "kv_lens", "page_table", "positions", "slots"):
        assert torch.equal(getattr(got, name), getattr(want, name)), name


@pytest.mark.parametrize("make", [decode, extend, chain])
def test_updated_metadata_is_new_metadata_in_the_same_memory(
    make: Callable[[list[int], torch.Tensor], AttentionMetadata],
) -> None:
    metadata = make(FIRST, TABLE.clone())
    names = ("kv_lens", "page_table", "positions", "slots")
    memory = [getattr(metadata, name).data_ptr() for name in names]

    metadata.update(SECOND, OTHER)

    require_same(metadata, make(SECOND, OTHER))
    assert [getattr(metadata, name).data_ptr() for name in names] == memory


def test_what_kernels_read_of_a_batch() -> None:
    batch = extend(FIRST, TABLE)

    assert batch.qo_indptr.tolist() == [0, 5, 7]
    assert batch.kv_lens.tolist() == [20, 33]
    assert batch.positions.tolist() == [15, 16, 17, 18, 19, 31, 32]
    assert batch.slots.tolist() == [5 * PAGE + 15, *range(2 * PAGE, 2 * PAGE + 4), 127, 48]
    assert [x.dtype for x in (batch.qo_indptr, batch.kv_lens, batch.slots)] == [
        *(torch.int32, torch.int32, torch.int64)
    ]
    assert (batch.num_tokens, batch.max_query_len, batch.max_kv_len) == (7, 5, 3 * PAGE)


def test_a_token_goes_to_its_page() -> None:
    metadata = decode(FIRST, TABLE.clone())
    # Tokens 19 and 32: offset 3 of the second page, offset 0 of the third.
    assert metadata.slots.tolist() == [2 * PAGE + 3, 3 * PAGE]

    metadata.update(SECOND, OTHER)

    assert metadata.slots.tolist() == [6 * PAGE + 15, 11 * PAGE + 1]


@pytest.mark.parametrize("wide", [False, True])
def test_what_the_caller_writes_into_its_tensors_later_changes_nothing(wide: bool) -> None:
    # A batch's rows of a larger table are a view of it.
    table = torch.cat([TABLE, TABLE], dim=1)[:, :3] if wide else TABLE.clone()
    mask = TREE.clone()
    metadata = AttentionMetadata.draft(FIRST, table, PAGE, mask)

    table.fill_(-1)
    mask.fill_(False)

    want = chain(FIRST, TABLE)
    require_same(metadata, want)
    assert metadata.mask is not None and torch.equal(metadata.mask, TREE)
    metadata.update(SECOND, OTHER)
    assert (table == -1).all()


def test_plans_see_the_new_batch_and_a_trees_positions() -> None:
    metadata = AttentionMetadata.draft(FIRST, TABLE.clone(), PAGE, TREE, BEFORE)
    plan = metadata.plans["plan"] = Seen()

    metadata.update(SECOND, OTHER, AFTER)

    require_same(metadata, AttentionMetadata.draft(SECOND, OTHER, PAGE, TREE, AFTER))
    want = (tuple(SECOND), [45, 46, 46, 15, 16, 16], OTHER.flatten().tolist())
    assert plan.parts == [want]


@pytest.mark.parametrize(
    ("lengths", "table", "positions", "message"),
    [
        ([48], OTHER, None, "update() got 1 requests and a page table (2, 3), wanted 2 and (2, 3)"),
        (SECOND, OTHER[:, :2], None, "a page table (2, 2), wanted 2 and (2, 3)"),
        ([48, 49], OTHER, None, "request 1 has 49 keys, but its row of the page table has room"),
        ([48, 2], OTHER, None, "request 1 has 3 query tokens and 2 keys"),
        (SECOND, OTHER, AFTER[:, :2], "positions is (2, 2), wanted (2, 3)"),
    ],
)
def test_what_a_graphs_memory_cannot_hold_is_refused_and_nothing_changes(
    lengths: list[int], table: torch.Tensor, positions: torch.Tensor | None, message: str
) -> None:
    metadata = chain(FIRST, TABLE.clone())
    with pytest.raises(ValueError, match=re.escape(message)):
        metadata.update(lengths, table, positions)
    require_same(metadata, chain(FIRST, TABLE))
