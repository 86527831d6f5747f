"""What one step of the engine computes."""

from __future__ import annotations

from dataclasses import dataclass

from layers.serving.scheduling.request import Request


@dataclass(frozen=True)
class Part:
    """The tokens of one text in a step: tokens[start : start + count], and drafts behind them.

    Attributes:
        drafts: to be verified; only where the tokens reach the text's end.
    """

    request: Request
    start: int
    count: int
    drafts: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Behind the last token of the text, drafts not counted."""
        return self.start + self.count

    @property
    def num_rows(self) -> int:
        """Rows of the model's batch."""
        return self.count + len(self.drafts)

    @property
    def is_sampled(self) -> bool:
        """Whether the step gives the text new tokens: a prompt's parts but the last do not."""
        return self.end == len(self.request.tokens)


@dataclass(frozen=True)
class Step:
    """Parts of different texts, computed together.

    Attributes:
        mode: as of `layers.attention.metadata`: "decode" where each part is one token, "draft"
            where each is one token and the same number of drafts, else "extend".
    """

    parts: tuple[Part, ...]
    mode: str


def make_step(parts: list[Part]) -> Step:
    """Finds the mode that fits."""
    rows = {part.num_rows for part in parts}
    if all(part.count == 1 and part.is_sampled for part in parts) and len(rows) == 1:
        return Step(tuple(parts), "decode" if rows == {1} else "draft")
    return Step(tuple(parts), "extend")
