"""Prefixes are found by all their tokens, stay while used, and go least recently used first."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.serving.memory.page_pool import PagePool
from layers.serving.memory.prefix_cache import PrefixCache

PAGE = 2


def cached(
    pool: PagePool, cache: PrefixCache, tokens: list[int], *, keep: bool = False
) -> list[int]:
    """A text that was computed; with `keep` it still holds its pages."""
    pages = pool.take(len(tokens) // PAGE)
    cache.insert(tokens, pages, 0, len(pages))
    if not keep:
        for page in pages:
            pool.give_back(page)
    return pages


def test_a_prefix_is_found_up_to_the_first_other_page() -> None:
    pool = PagePool(20)
    cache = PrefixCache(pool, PAGE)
    pages = cached(pool, cache, [1, 2, 3, 4, 5, 6])
    assert cache.match([1, 2, 3, 4, 9, 9], 3) == pages[:2]
    assert cache.match([1, 2, 3, 4, 5, 6], 3) == pages
    assert cache.match([1, 2, 3, 4, 5, 6], 2) == pages[:2]
    assert cache.match([9, 2, 3, 4, 5, 6], 3) == []
    # The second page's tokens are known, but behind another first page.
    assert cache.match([3, 4, 3, 4], 2) == []


def test_the_token_behind_a_page_counts_with_a_draft_module() -> None:
    pool = PagePool(20)
    cache = PrefixCache(pool, PAGE, overlap=1)
    pages = pool.take(2)
    cache.insert([1, 2, 3, 4, 5], pages, 0, 2)
    assert cache.match([1, 2, 3, 4, 5], 2) == pages
    assert cache.match([1, 2, 3, 4, 6], 2) == pages[:1]
    assert cache.match([1, 2, 9, 9, 9], 2) == []


def test_two_texts_that_computed_the_same_come_to_share_it() -> None:
    pool = PagePool(20)
    cache = PrefixCache(pool, PAGE)
    first = cached(pool, cache, [1, 2, 3, 4], keep=True)
    second = pool.take(3)
    own = second[2]
    cache.insert([1, 2, 3, 4, 5, 6], second, 0, 3)
    assert second == [*first, own]
    assert pool.num_free == 19 - 3
    assert [pool.holders(page) for page in second] == [3, 3, 2]


def test_the_least_recently_used_goes_first_and_leaves_before_stems() -> None:
    pool = PagePool(20)
    cache = PrefixCache(pool, PAGE)
    old = cached(pool, cache, [1, 2, 3, 4])
    new = cached(pool, cache, [1, 2, 5, 6])
    other = cached(pool, cache, [7, 8])
    for page in cache.match([1, 2, 3, 4], 2):
        pool.give_back(page)
    assert cache.evict(1) == 1
    assert cache.match([1, 2, 5, 6], 2) == [old[0]], "of the pages used least recently, the leaf"
    pool.give_back(old[0])
    assert cache.evict(1) == 1
    assert cache.match([7, 8], 1) == []
    assert cache.match([1, 2, 3, 4], 2) == old
    assert len({*old, new[1], *other}) == 4


def test_what_a_text_uses_stays() -> None:
    pool = PagePool(20)
    cache = PrefixCache(pool, PAGE)
    cached(pool, cache, [1, 2, 3, 4], keep=True)
    cached(pool, cache, [1, 2, 5, 6])
    assert cache.evict(10) == 1
    assert len(cache.match([1, 2, 3, 4], 2)) == 2


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(seed=st.integers(0, 10**9), overlap=st.integers(0, 1))
def test_random_texts_find_their_own_tokens_and_nothing_is_lost(seed: int, overlap: int) -> None:
    """Each page's contents are noted as it is filled; a match has to hold the text's own."""
    rng = random.Random(seed)
    pool = PagePool(14)
    cache = PrefixCache(pool, PAGE, overlap)
    contents: dict[int, tuple[int, ...]] = {}
    running: list[list[int]] = []
    for _ in range(40):
        if running and rng.random() < 0.4:
            for page in running.pop(rng.randrange(len(running))):
                pool.give_back(page)
            continue
        tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 12) + overlap)]
        full = (len(tokens) - overlap) // PAGE
        pages = cache.match(tokens, full)
        done = len(pages)
        missing = max(0, full - done - pool.num_free)
        # Everything that is idle can be had, or a scheduler that counts on it would stop.
        could = min(missing, pool.num_idle)
        assert cache.evict(missing) == could
        if full - done > pool.num_free:
            for page in pages:
                pool.give_back(page)
            continue
        pages += pool.take(full - done)
        for index, page in enumerate(pages):
            seen = tuple(tokens[: (index + 1) * PAGE + overlap])
            if index < done:
                assert contents[page] == seen
            contents[page] = seen
        cache.insert(tokens, pages, done, full)
        assert [contents[page] for page in pages] == [
            tuple(tokens[: (index + 1) * PAGE + overlap]) for index in range(full)
        ]
        running.append(pages)
    for pages in running:
        for page in pages:
            pool.give_back(page)
    assert pool.num_free + pool.num_idle == pool.num_usable
    idle = pool.num_idle
    assert cache.num_pages == idle
    assert cache.evict(100) == idle
    assert cache.num_pages == 0
    assert pool.num_free == pool.num_usable


def test_more_pages_than_are_held_cannot_be_evicted() -> None:
    pool = PagePool(5)
    cache = PrefixCache(pool, PAGE)
    cached(pool, cache, [1, 2])
    assert cache.evict(3) == 1
    with pytest.raises(ValueError, match="not in the prefix cache"):
        pool.uncache(1)
