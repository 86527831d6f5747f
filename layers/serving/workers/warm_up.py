"""Runs steps of every kind before the server is ready, so that no request waits for a compiler.

Which kernel a layer takes depends on the tokens of a step and of the longest text in it, on the
number of texts, and on the pages of the longest. Each of them has few thresholds, and a test holds
the steps here against all that an engine makes. The entries of the cache go to page 0, which is
nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from layers.serving.messages import SamplingParams
from layers.serving.running.batch import Batch
from layers.serving.running.runner import Executor
from layers.serving.sampling.logprobs import logprobs_of
from layers.serving.sampling.sampler import sample
from layers.serving.scheduling.scheduler import Limits


@dataclass(frozen=True)
class Shape:
    """A step of equal parts.

    Attributes:
        mode: of `Batch`.
        texts: how many.
        tokens: of each text.
        prefix: tokens of each that the cache has already.
        width: columns of the page table.
    """

    mode: str
    texts: int
    tokens: int
    prefix: int
    width: int

    def batch(self) -> Batch:
        """With logits of every text's last token, or of every token of drafts."""
        total = self.texts * self.tokens
        rows = range(total) if self.mode == "draft" else range(self.tokens - 1, total, self.tokens)
        return Batch(
            mode=self.mode,
            input_ids=[0] * total,
            query_lens=[self.tokens] * self.texts,
            kv_lens=[self.prefix + self.tokens] * self.texts,
            page_table=np.zeros((self.texts, self.width), dtype=np.int32).tobytes(),
            rows=list(rows),
        )


def warm_up(executor: Executor, limits: Limits, context: int) -> int:
    """Runs the steps on all ranks, drafts and sampling included.

    Args:
        executor: that will run the engine's steps.
        limits: of the engine's steps.
        context: tokens of the longest text.

    Returns:
        How many steps.
    """
    count = 0
    for shape in shapes(limits, context):
        batch = shape.batch()
        _choose(executor.target(batch))
        if limits.draft_tokens:
            first = list(range(shape.tokens - 1, len(batch.input_ids), shape.tokens))
            _choose(executor.draft_first(batch.input_ids, first))
            _choose(executor.draft_next(_one_token(shape).batch()))
        count += 1
    return count


def shapes(limits: Limits, context: int) -> Iterator[Shape]:
    """Steps that meet every kernel which the engine's steps meet."""
    full = limits.pages_for(context)
    for texts in _ladder(limits.max_running, 2):
        for width in _ladder(full, 2):
            yield Shape("decode", texts, 1, 0, width)
    # A page more than divides well is divided otherwise.
    for width in _ladder(full, 2):
        yield Shape("decode", 1, 1, 0, min(width + 1, full))
    longest = min(limits.step_tokens, context)
    for tokens in _ladder(longest, 4):
        # Without a prefix MLA takes another path.
        yield _extend(limits, 1, tokens, 0)
        prefixed = _extend(limits, 1, tokens, min(1, context - tokens))
        yield prefixed
        yield replace(prefixed, width=full)
    for tokens in (step + 1 for step in _ladder(longest, 2) if step < longest):
        # One more than fits into tiles: as many tiles as a step can have, which are not split.
        texts = min(limits.max_running, limits.step_tokens // tokens)
        yield _extend(limits, texts, tokens, min(1, context - tokens))
    if limits.draft_tokens:
        tokens = 1 + limits.draft_tokens
        least = -(-tokens // limits.page_size)
        for texts in _ladder(limits.max_running, 2):
            for width in {least, full}:
                yield Shape("draft", texts, tokens, 0, width)


def _extend(limits: Limits, texts: int, tokens: int, prefix: int) -> Shape:
    """With as few pages as hold it."""
    return Shape("extend", texts, tokens, prefix, -(-(prefix + tokens) // limits.page_size))


def _one_token(shape: Shape) -> Shape:
    return Shape("decode", shape.texts, 1, 0, shape.width)


def _ladder(most: int, factor: int) -> list[int]:
    """1, factor, factor² … below `most`, and `most`."""
    steps, step = [], 1
    while step < most:
        steps.append(step)
        step *= factor
    return [*steps, most]


_KINDS = (
    SamplingParams(temperature=0),
    SamplingParams(temperature=1, seed=1),
    SamplingParams(temperature=1, seed=1, top_k=2, top_p=0.5),
)


def _choose(logits: torch.Tensor) -> None:
    """Greedy, sampled, cut, and all of them together; with logprobs."""
    count = len(logits)
    for kinds in (_KINDS[:1], _KINDS[:2], _KINDS):
        params = [kinds[row % len(kinds)] for row in range(count)]
        chosen = sample(logits, params, list(range(count)))
    logprobs_of(logits, chosen, [1] * count)
