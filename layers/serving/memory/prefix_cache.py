"""Finds the pages of prompts that begin as an earlier text did.

A tree whose edges are the tokens of one page, so that a path is a text cut into pages and a page is
found by all tokens before its end, never by a hash that another text could share. As the radix tree
of SGLang (Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language Model Programs"),
with pages for edges. The tree holds each of its pages; texts that use one hold it as well, and all
before it. So a page that the tree alone holds has only such pages behind it, and can be evicted.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from layers.serving.memory.page_pool import PagePool

Edge = tuple[int, ...]


@dataclass(eq=False)
class _Node:
    page: int
    edge: Edge
    parent: _Node | None
    used: int = 0
    children: dict[Edge, _Node] = field(default_factory=dict)
    is_gone: bool = False


class PrefixCache:
    """The tree of pages that hold finished keys and values.

    Args:
        pool: where the pages come from and go back to.
        page_size: tokens a page.
        overlap: tokens behind a page that its contents depend on, and that a text has to share as
            well: 1 with a draft module, whose entry of a token takes the token behind it.
    """

    def __init__(self, pool: PagePool, page_size: int, overlap: int = 0) -> None:
        self._pool = pool
        self._page_size = page_size
        self._overlap = overlap
        self._root = _Node(page=0, edge=(), parent=None)
        self._by_page: dict[int, _Node] = {}
        self._clock = 0
        self._pushes = 0
        # (when used, unique, node) of leaves, least recently used first; outdated ones are passed.
        self._leaves: list[tuple[int, int, _Node]] = []

    @property
    def num_pages(self) -> int:
        """Pages that the tree holds."""
        return len(self._by_page)

    def match(self, tokens: Sequence[int], max_pages: int) -> list[int]:
        """The pages of the longest known prefix, each held once more for the caller.

        Args:
            tokens: of the text, at least max_pages · page_size + overlap of them.
            max_pages: at most so many.
        """
        self._clock += 1
        node, pages = self._root, []
        for index in range(max_pages):
            child = node.children.get(self._edge(tokens, index))
            if child is None:
                break
            node = child
            self._touch(node)
            self._pool.share(node.page)
            pages.append(node.page)
        return pages

    def insert(self, tokens: Sequence[int], pages: list[int], done: int, full: int) -> None:
        """Adds a text's pages, those filled with its tokens' keys and values.

        Where the tree has a page for the same tokens, the text takes that one instead of its own:
        `pages` is changed in place.

        Args:
            tokens: the text, at least full · page_size + overlap of them.
            pages: its pages.
            done: how many of its first pages are the tree's already.
            full: how many are to be.
        """
        if done >= full:
            return
        self._clock += 1
        node = self._by_page[pages[done - 1]] if done else self._root
        for index in range(done, full):
            edge = self._edge(tokens, index)
            child = node.children.get(edge)
            if child is None:
                child = _Node(page=pages[index], edge=edge, parent=node)
                self._pool.cache(child.page)
                node.children[edge] = child
                self._by_page[child.page] = child
            else:
                self._pool.share(child.page)
                self._pool.give_back(pages[index])
                pages[index] = child.page
            node = child
            self._touch(node)

    def evict(self, count: int) -> int:
        """Lets go of up to `count` pages that nobody else holds, least recently used first.

        Returns:
            How many pages became free.
        """
        freed = 0
        kept: list[tuple[int, int, _Node]] = []
        while freed < count and self._leaves:
            entry = heapq.heappop(self._leaves)
            used, _, node = entry
            if node.is_gone or node.used != used or node.children:
                continue
            if self._pool.holders(node.page) > 1:
                kept.append(entry)
                continue
            self._remove(node)
            freed += 1
        for entry in kept:
            heapq.heappush(self._leaves, entry)
        return freed

    def _remove(self, node: _Node) -> None:
        parent = node.parent
        assert parent is not None
        node.is_gone = True
        del parent.children[node.edge]
        del self._by_page[node.page]
        self._pool.uncache(node.page)
        if parent is not self._root and not parent.children:
            self._push(parent)

    def _touch(self, node: _Node) -> None:
        node.used = self._clock
        if node.children:
            return
        if len(self._leaves) > 4 * len(self._by_page) + 64:
            self._leaves = []
            for leaf in self._by_page.values():
                if not leaf.children:
                    self._push(leaf)
        else:
            self._push(node)

    def _push(self, leaf: _Node) -> None:
        self._pushes += 1
        heapq.heappush(self._leaves, (leaf.used, self._pushes, leaf))

    def _edge(self, tokens: Sequence[int], index: int) -> Edge:
        start = index * self._page_size
        return tuple(tokens[start : start + self._page_size + self._overlap])
