"""A bare loop over a model: a batch of prompts, then greedy decoding, and nothing else.

What a serving engine takes beyond it is the engine's own: scheduling, sampling, processes, HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from layers.attention.metadata import AttentionMetadata


@dataclass
class Course:
    """What a batch took.

    prompt_seconds: from the prompts to the first token of each text.
    step_seconds: of each further token of the whole batch.
    tokens: (B, generated), of each text.
    """

    prompt_seconds: float = 0.0
    step_seconds: list[float] = field(default_factory=list)
    tokens: list[list[int]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.prompt_seconds + sum(self.step_seconds)

    @property
    def num_tokens(self) -> int:
        """Generated, of all texts."""
        return sum(len(tokens) for tokens in self.tokens)


class BareLoop:
    """Generates for fixed batches, on one thread, as servers beside it do with --torch-threads 1.

    model: of `layers.models.load.load_model`.
    num_pages, page_size: of its caches.
    """

    def __init__(self, model: Any, num_pages: int = 1024, page_size: int = 16) -> None:
        self._model = model
        self._page_size = page_size
        torch.set_num_threads(1)
        with torch.inference_mode():
            self._caches = model.make_caches(num_pages, page_size)

    def run(self, prompts: Sequence[Sequence[int]], num_tokens: int) -> Course:
        """`num_tokens` of each text, its end or not; prompts together in one forward."""
        model, device = self._model, self._model.device
        lengths = [len(prompt) for prompt in prompts]
        pages = self._pages(lengths, num_tokens)
        course = Course(tokens=[[] for _ in prompts])
        with torch.inference_mode():
            began = time.perf_counter()
            metadata = AttentionMetadata.extend(lengths, lengths, pages, self._page_size)
            ids = torch.tensor([i for prompt in prompts for i in prompt], device=device)
            hidden = model(ids, metadata.positions, self._caches, metadata)
            last = torch.tensor(lengths, device=device).cumsum(0) - 1
            new = model.logits(hidden[last]).argmax(-1)
            self._keep(course, new)
            course.prompt_seconds = time.perf_counter() - began
            for step in range(1, num_tokens):
                began = time.perf_counter()
                kv_lens = [length + step for length in lengths]
                metadata = AttentionMetadata.decode(kv_lens, pages, self._page_size)
                hidden = model(new, metadata.positions, self._caches, metadata)
                new = model.logits(hidden).argmax(-1)
                self._keep(course, new)
                course.step_seconds.append(time.perf_counter() - began)
        return course

    @staticmethod
    def _keep(course: Course, new: torch.Tensor) -> None:
        # Waits for the GPU, as an engine has to that looks for a text's end.
        for tokens, token in zip(course.tokens, new.tolist(), strict=True):
            tokens.append(token)

    def _pages(self, lengths: Sequence[int], num_tokens: int) -> torch.Tensor:
        width = -(-(max(lengths) + num_tokens) // self._page_size)
        table = torch.arange(len(lengths) * width, dtype=torch.int32) + 1
        return table.view(len(lengths), width).to(self._model.device)
