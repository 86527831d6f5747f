"""Proposes tokens with the model's next-token-prediction module, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layers.serving.running.batch import Batch, pack_pages
from layers.serving.running.runner import Executor
from layers.serving.sampling.sampler import sample
from layers.serving.scheduling.request import Request
from layers.serving.scheduling.step import Part


@dataclass(frozen=True)
class Computed:
    """A part of the step that the model just ran, and what it gave to its text.

    Attributes:
        new: tokens behind the part's text; empty where a prompt goes on.
        goes_on: whether drafts are wanted: the text was given a token and has not ended.
    """

    part: Part
    new: tuple[int, ...]
    goes_on: bool

    @property
    def last_row(self) -> int:
        """Of the part's rows, the one whose token behind is the text's last."""
        return self.part.count - 1 + max(len(self.new) - 1, 0)


class Drafter:
    """Runs the draft module over each step's tokens, then on from the texts' ends.

    The first forward takes the rows of the model's own batch: the draft module has its own keys and
    values, and a row's needs the model's hidden state and the token behind it.

    Args:
        executor: that ran the step's batch.
        draft_tokens: K, proposed for each text.
        page_size: tokens a page.
    """

    def __init__(self, executor: Executor, draft_tokens: int, page_size: int) -> None:
        self._executor = executor
        self._draft_tokens = draft_tokens
        self._page_size = page_size

    def propose(self, computed: Sequence[Computed]) -> None:
        """Sets `drafts` of each text that goes on.

        Args:
            computed: every part of the step, in its order; texts have their new tokens already.
        """
        ids: list[int] = []
        rows: list[int] = []
        for c in computed:
            if c.goes_on:
                rows.append(len(ids) + c.last_row)
            ids += _behind(c)
        texts = [c.part.request for c in computed if c.goes_on]
        for request in texts:
            request.drafts = []
        logits = self._executor.draft_first(ids, rows)
        for number in range(1, self._draft_tokens + 1):
            if not texts:
                return
            places = [len(request.tokens) + len(request.drafts) for request in texts]
            chosen = sample(logits, [request.params for request in texts], places)
            for request, token in zip(texts, chosen, strict=True):
                request.drafts.append(token)
            if number < self._draft_tokens:
                logits = self._executor.draft_next(self._next_batch(texts))

    def _next_batch(self, texts: Sequence[Request]) -> Batch:
        # An entry stands one place before the token that it takes.
        kv_lens = [len(request.tokens) - 1 + len(request.drafts) for request in texts]
        counts = [-(-length // self._page_size) for length in kv_lens]
        return Batch(
            mode="decode",
            input_ids=[request.drafts[-1] for request in texts],
            query_lens=[1] * len(texts),
            kv_lens=kv_lens,
            page_table=pack_pages([request.pages for request in texts], counts),
            rows=list(range(len(texts))),
        )


def _behind(c: Computed) -> list[int]:
    """The token behind each row of a part; behind a rejected draft any will do."""
    part = c.part
    known = part.request.tokens[part.start + 1 : part.start + 1 + part.num_rows]
    return known + [0] * (part.num_rows - len(known))
