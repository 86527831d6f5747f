"""One text in the making, as the scheduler knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from layers.serving.messages import SamplingParams


@dataclass(eq=False)
class Request:
    """A prompt and what was generated behind it.

    Attributes:
        choice: its number, unique in the server's life.
        tokens: the prompt's ids and the generated ones.
        num_prompt: of `tokens`, those of the prompt.
        params: how tokens are chosen.
        detokenizer: which worker turns its tokens into text.
        stop: its stop strings; the detokenizer looks for them.
        computed: how many of `tokens` have keys and values in the cache.
        pages: of the cache, in the order of the text.
        cached_pages: of `pages`, how many the prefix cache was told of.
        drafts: tokens proposed behind `tokens`, to be verified by the next step.
        has_started: whether its detokenizer has heard of it.
    """

    choice: int
    tokens: list[int]
    num_prompt: int
    params: SamplingParams
    detokenizer: int = 0
    stop: list[str] = field(default_factory=list)
    computed: int = 0
    pages: list[int] = field(default_factory=list)
    cached_pages: int = 0
    drafts: list[int] = field(default_factory=list)
    has_started: bool = False

    @property
    def num_generated(self) -> int:
        """Tokens behind the prompt."""
        return len(self.tokens) - self.num_prompt

    @property
    def is_decoding(self) -> bool:
        """Whether all but the last token are computed, so that the next step gives one more."""
        return self.computed == len(self.tokens) - 1 and self.num_generated > 0
