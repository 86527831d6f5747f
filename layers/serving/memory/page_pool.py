"""Who holds which page of the KV cache."""

from __future__ import annotations


class OutOfPages(RuntimeError):
    """No page is free."""


class PagePool:
    """Pages 1 … num_pages - 1, each free or held by one or more owners.

    Page 0 is never handed out: rows that only fill a CUDA graph's batch write there.

    Args:
        num_pages: of the caches, page 0 included; at least 2.

    Raises:
        ValueError: fewer than 2 pages.
    """

    def __init__(self, num_pages: int) -> None:
        if num_pages < 2:
            raise ValueError(f"the page pool has {num_pages} pages, wanted 2 or more")
        self._holders = [0] * num_pages
        self._is_cached = [False] * num_pages
        self._num_idle = 0
        # The page freed last is handed out first: its memory may still be in a CPU's cache.
        self._free = list(range(num_pages - 1, 0, -1))

    @property
    def num_usable(self) -> int:
        """Pages that can be handed out at all."""
        return len(self._holders) - 1

    @property
    def num_free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def num_idle(self) -> int:
        """Pages that the prefix cache alone holds: they could be had by eviction."""
        return self._num_idle

    def holders(self, page: int) -> int:
        """How many hold it."""
        return self._holders[page]

    def take(self, count: int) -> list[int]:
        """Hands out `count` pages to one holder each, or none of them.

        Raises:
            OutOfPages: fewer are free.
        """
        if count > len(self._free):
            raise OutOfPages(f"{count} pages wanted, {len(self._free)} free")
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._holders[page] = 1
        return pages

    def share(self, page: int) -> None:
        """Adds a holder to a page that has one.

        Raises:
            ValueError: nobody holds it.
        """
        self._check_held(page)
        self._num_idle -= self._is_idle(page)
        self._holders[page] += 1

    def give_back(self, page: int) -> None:
        """Takes a holder away; the last one frees the page.

        Raises:
            ValueError: nobody holds it.
        """
        self._check_held(page)
        self._holders[page] -= 1
        self._num_idle += self._is_idle(page)
        if not self._holders[page]:
            self._free.append(page)

    def cache(self, page: int) -> None:
        """Makes the prefix cache a holder of a page that has one.

        Raises:
            ValueError: nobody holds it, or the cache does already.
        """
        if self._is_cached[page]:
            raise ValueError(f"page {page} is in the prefix cache already")
        self.share(page)
        self._is_cached[page] = True

    def uncache(self, page: int) -> None:
        """Takes the prefix cache from the holders.

        Raises:
            ValueError: it is none of them.
        """
        if not self._is_cached[page]:
            raise ValueError(f"page {page} is not in the prefix cache")
        self._num_idle -= self._is_idle(page)
        self._is_cached[page] = False
        self.give_back(page)

    def _is_idle(self, page: int) -> bool:
        return self._is_cached[page] and self._holders[page] == 1

    def _check_held(self, page: int) -> None:
        if not 0 < page < len(self._holders) or not self._holders[page]:
            raise ValueError(f"page {page} is held by nobody: it was given back before")
