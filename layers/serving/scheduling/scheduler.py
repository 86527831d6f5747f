"""Which texts a step computes, and whose pages they may take.

Continuous batching: each step takes every text that can go on, and prompts as far as the step has
room, in parts if need be (chunked prefill, Agrawal et al. 2023, "SARATHI"). Where pages run out,
prefixes that nobody uses go first; then the text that came last goes back to the queue and is
computed again later (recomputation of vLLM, Kwon et al. 2023). The text that came first is never
put back, so each text ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from layers.serving.memory.page_pool import PagePool
from layers.serving.memory.prefix_cache import PrefixCache
from layers.serving.scheduling.request import Request
from layers.serving.scheduling.step import Part, Step, make_step


@dataclass(frozen=True)
class Limits:
    """What a step may be.

    Attributes:
        max_running: texts computed together.
        step_tokens: rows of a step; above max_running · (1 + draft_tokens).
        page_size: tokens a page.
        draft_tokens: proposed for each text and step; 0 without speculation.
        use_prefix_cache: whether pages of earlier texts are used again.
    """

    max_running: int
    step_tokens: int
    page_size: int
    draft_tokens: int = 0
    use_prefix_cache: bool = True

    @property
    def lookahead(self) -> int:
        """Tokens behind a text's last that need room: drafts verified, and the next ones' keys."""
        return 2 * self.draft_tokens

    def pages_for(self, length: int) -> int:
        """Pages of a text of so many tokens, while drafts stand behind it."""
        return -(-(length + self.lookahead) // self.page_size)


class Scheduler:
    """The queue, the texts in the making, and their pages.

    Args:
        limits: of a step.
        pool: of the pages.
    """

    def __init__(self, limits: Limits, pool: PagePool) -> None:
        self.limits = limits
        self.pool = pool
        overlap = 1 if limits.draft_tokens else 0
        self.prefixes = PrefixCache(pool, limits.page_size, overlap)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.num_preemptions = 0
        self.num_prefix_hits = 0

    def add(self, request: Request) -> None:
        """Puts a text at the queue's end.

        Raises:
            ValueError: it could not be finished even alone.
        """
        length = request.num_prompt + request.params.max_tokens
        need = self.limits.pages_for(length)
        if need > self.pool.num_usable:
            raise ValueError(
                f"a text of {length} tokens needs {need} pages and the cache has "
                f"{self.pool.num_usable}: raise --kv-tokens, or lower --context-length"
            )
        self.waiting.append(request)

    def plan(self) -> Step | None:
        """What to compute now; None if there is nothing to do.

        Takes pages for it. Each part has to be computed, and told to `computed`, before the next.
        """
        room = self.limits.step_tokens
        parts: list[Part] = []
        # Texts that only wait for their next token come before prompts.
        order = sorted(self.running, key=lambda request: not request.is_decoding)
        for request in order:
            if room < 1 or request not in self.running:
                continue
            part = self._part(request, room)
            if self._reserve(part):
                parts.append(part)
                room -= part.num_rows
        # A text preempted for a later part is in no step.
        parts = [part for part in parts if part.request in self.running]
        while room > 0 and self.waiting and len(self.running) < self.limits.max_running:
            started = self._start(self.waiting[0], room)
            if started is None:
                break
            parts.append(started)
            room -= started.num_rows
        if not parts:
            return None
        return make_step(parts)

    def computed(self, request: Request, count: int) -> None:
        """Notes that the caches hold the final entries of a text's first `count` tokens."""
        request.computed = count
        if not self.limits.use_prefix_cache:
            return
        full = count // self.limits.page_size
        self.prefixes.insert(request.tokens, request.pages, request.cached_pages, full)
        request.cached_pages = max(request.cached_pages, full)

    def remove(self, request: Request) -> None:
        """Takes a text out, finished or not; its pages are free, or stay as a prefix."""
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        self._release(request)

    def all_requests(self) -> Iterable[Request]:
        """Every text that is not finished."""
        return [*self.running, *self.waiting]

    def _part(self, request: Request, room: int) -> Part:
        count = min(len(request.tokens) - request.computed, room)
        drafts = tuple(request.drafts) if count + len(request.drafts) <= room else ()
        reaches_end = request.computed + count == len(request.tokens)
        return Part(request, request.computed, count, drafts if reaches_end else ())

    def _start(self, request: Request, room: int) -> Part | None:
        self._match(request)
        # Room for the whole text so far, or it would be put back before its prompt is done.
        need = self.limits.pages_for(len(request.tokens)) - len(request.pages)
        if need > self.pool.num_free + self.pool.num_idle:
            self._release(request)
            return None
        self.num_prefix_hits += request.computed
        self.waiting.popleft()
        self.running.append(request)
        part = self._part(request, room)
        has_room = self._reserve(part)
        assert has_room, "free and idle pages were counted, and are not there"
        return part

    def _match(self, request: Request) -> None:
        if not self.limits.use_prefix_cache:
            return
        # The last token is always computed: its logits are wanted. So each page has one behind it.
        most = (len(request.tokens) - 1) // self.limits.page_size
        request.pages = self.prefixes.match(request.tokens, most)
        request.computed = len(request.pages) * self.limits.page_size
        request.cached_pages = len(request.pages)

    def _reserve(self, part: Part) -> bool:
        """Takes the pages that a part needs, from others if need be; False if it was put back."""
        request = part.request
        lookahead = self.limits.lookahead if part.is_sampled else 0
        wanted = -(-(part.end + lookahead) // self.limits.page_size)
        while (need := wanted - len(request.pages)) > self.pool.num_free:
            if self.prefixes.evict(need - self.pool.num_free):
                continue
            last = self.running[-1]
            self._preempt(last)
            if last is request:
                return False
        if need > 0:
            request.pages += self.pool.take(need)
        return True

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._release(request)
        self.waiting.appendleft(request)
        self.num_preemptions += 1

    def _release(self, request: Request) -> None:
        for page in request.pages:
            self.pool.give_back(page)
        request.pages = []
        request.cached_pages = request.computed = 0
        request.drafts = []
