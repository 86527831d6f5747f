"""Pages are never handed out twice, never lost, and counted right, whatever happens to them."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from layers.serving.memory.page_pool import OutOfPages, PagePool

NUM_PAGES = 9


class PoolMachine(RuleBasedStateMachine):
    """Random holders against a count of them by hand."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(NUM_PAGES)
        self.holders: Counter[int] = Counter()
        self.cached: set[int] = set()

    @rule(target=held, count=st.integers(0, NUM_PAGES + 1))
    def take(self, count: int) -> int | None:
        free = NUM_PAGES - 1 - len([page for page, n in self.holders.items() if n])
        if count > free:
            with pytest.raises(OutOfPages, match=f"{count} pages wanted, {free} free"):
                self.pool.take(count)
            return None
        pages = self.pool.take(count)
        assert len(set(pages)) == count
        assert not any(self.holders[page] for page in pages), "a page that somebody holds"
        assert 0 not in pages
        for page in pages:
            self.holders[page] = 1
        return pages[0] if pages else None

    @rule(target=held, page=held)
    def share(self, page: int | None) -> int | None:
        if page is not None and self.holders[page]:
            self.pool.share(page)
            self.holders[page] += 1
        return page

    @rule(page=consumes(held))
    def give_back(self, page: int | None) -> None:
        if page is None:
            return
        own = self.holders[page] - (page in self.cached)
        if not self.holders[page]:
            with pytest.raises(ValueError, match="held by nobody"):
                self.pool.give_back(page)
        elif own:
            self.pool.give_back(page)
            self.holders[page] -= 1

    @rule(page=held)
    def cache(self, page: int | None) -> None:
        if page is not None and self.holders[page] and page not in self.cached:
            self.pool.cache(page)
            self.cached.add(page)
            self.holders[page] += 1

    @rule(data=st.data())
    def uncache(self, data: st.DataObject) -> None:
        if self.cached:
            page = data.draw(st.sampled_from(sorted(self.cached)))
            self.pool.uncache(page)
            self.cached.discard(page)
            self.holders[page] -= 1

    @invariant()
    def counts_agree(self) -> None:
        held = [page for page, n in self.holders.items() if n]
        assert self.pool.num_free == NUM_PAGES - 1 - len(held)
        assert self.pool.num_idle == sum(self.holders[page] == 1 for page in self.cached)
        assert all(self.pool.holders(page) == self.holders[page] for page in range(1, NUM_PAGES))


PoolMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, database=None, derandomize=True
)
TestPool = PoolMachine.TestCase


def test_page_0_is_nobodys() -> None:
    assert sorted(PagePool(4).take(3)) == [1, 2, 3]


@pytest.mark.parametrize("page", [0, 1, 4, -1])
def test_what_nobody_holds_cannot_be_given_back(page: int) -> None:
    with pytest.raises(ValueError, match=f"page {page} is held by nobody"):
        PagePool(4).give_back(page)


def test_one_page_is_no_pool() -> None:
    with pytest.raises(ValueError, match="has 1 pages, wanted 2 or more"):
        PagePool(1)
