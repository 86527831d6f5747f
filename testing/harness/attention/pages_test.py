"""Pages that nobody owns are NaN, and every write out of place is named."""

import numpy as np
import pytest
import torch

from testing.harness.attention.pages import (
    FP8_NAN,
    ORDERS,
    check_writes,
    frozen,
    nan_pages,
    plan_pages,
)

LENGTHS = [5, 1, 8]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("page_size", [1, 4])
def test_pages_are_distinct_and_the_ends_are_nobodys(order: str, page_size: int) -> None:
    plan = plan_pages(np.random.default_rng(1), LENGTHS, page_size, order)
    counts = [-(-n // page_size) for n in LENGTHS]
    owned = [int(p) for row, n in zip(plan.tables, counts, strict=True) for p in row[:n]]
    assert len(set(owned)) == sum(counts)
    assert 0 not in owned and plan.num_pages - 1 not in owned
    past = {int(p) for row, n in zip(plan.tables, counts, strict=True) for p in row[n:]}
    assert past and not past & set(owned)


def test_orders() -> None:
    tables = {
        order: plan_pages(np.random.default_rng(1), [3, 2], 1, order).tables.tolist()
        for order in ORDERS
    }
    assert [row[:2] for row in tables["ascending"]] == [[1, 2], [5, 6]]
    assert [row[:2] for row in tables["descending"]] == [[7, 6], [3, 2]]
    assert [row[:2] for row in tables["interleaved"]] == [[1, 3], [2, 4]]
    with pytest.raises(ValueError, match="order is 'random', wanted one of ascending"):
        plan_pages(np.random.default_rng(1), [3, 2], 1, "random")


def test_shared_pages_and_garbage() -> None:
    plan = plan_pages(np.random.default_rng(1), [9, 6], 4, shared_pages=1, garbage=10**6)
    assert plan.tables[0, 0] == plan.tables[1, 0]
    assert plan.tables[1, 2:].tolist() == [10**6] * (plan.tables.shape[1] - 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_everything_else_is_nan(dtype: torch.dtype) -> None:
    plan = plan_pages(np.random.default_rng(2), LENGTHS, 4)
    rows = [torch.full((n, 2, 3), float(i + 1)).to(dtype) for i, n in enumerate(LENGTHS)]
    pages = nan_pages(plan, rows, [4, 1, 7], dtype, "cpu")
    assert pages.shape == (plan.num_pages, 4, 2, 3)
    flat = pages.float().flatten(0, 1)
    assert (flat[torch.from_numpy(plan.slots(0)[:4])] == 1).all()
    assert (flat[torch.from_numpy(plan.slots(2)[:7])] == 3).all()
    assert int(flat.isfinite().all(dim=2).all(dim=1).sum()) == 4 + 1 + 7
    if dtype is torch.float8_e4m3fn:
        assert int((pages.view(torch.uint8) == FP8_NAN).sum()) == (flat.shape[0] - 12) * 6


def test_owners_have_names() -> None:
    plan = plan_pages(np.random.default_rng(3), [5, 8], 4, "ascending")
    assert plan.owner(int(plan.slots(0)[4])) == "token 4 of request 0"
    assert plan.owner(int(plan.slots(0)[4]) + 1) == (
        "slot 1 of the last page of request 0, past its length"
    )
    assert plan.owner(2) == "slot 2 of page 0, which no request owns"


def test_writes_out_of_place_are_named() -> None:
    plan = plan_pages(np.random.default_rng(4), [5, 8], 4, "ascending")
    rows = [torch.ones(n, 1, 2, dtype=torch.bfloat16) for n in (5, 8)]
    pages = nan_pages(plan, rows, [4, 7], torch.bfloat16, "cpu")
    before = frozen(pages)
    written = np.array([plan.slots(0)[4], plan.slots(1)[7]])
    wanted = torch.full((2, 1, 2), 2.0, dtype=torch.bfloat16)
    flat = pages.flatten(0, 1)
    flat[written[0]] = 2.0
    (missing,) = check_writes("k", plan, before, pages, written, wanted)
    assert (missing.family, missing.place) == ("written", "k, token 7 of request 1")
    assert "1 of 2 tokens of this call are not written in k" in missing.message
    flat[written[1]] = 3.0
    flat[plan.slots(1)[6]] = 2.0
    wrong, spilt = check_writes("k", plan, before, pages, written, wanted)
    assert "1 of 2 tokens of this call are wrong in k" in wrong.message
    assert (spilt.family, spilt.place) == ("spilt", "k, token 6 of request 1")
    flat[written[1]], flat[plan.slots(1)[6]] = 2.0, 1.0
    assert check_writes("k", plan, before, pages, written, wanted) == []
