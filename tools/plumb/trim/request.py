"""What the user asks of `plumb trim`, checked: one kind of question at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tools.plumb.cells.names import matching
from tools.plumb.errors import PlumbError
from tools.plumb.trim.propose.candidate import Kind


class Format(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class Question(StrEnum):
    """What is asked."""

    CHANGE = "--drop, --merge or --add"
    PROPOSE = "--propose"
    OPTIMISE = "--optimise"


@dataclass(frozen=True)
class Request:
    """The options as given; folders are resolved by the caller."""

    drop: tuple[str, ...] = ()
    merge: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    propose: bool = False
    kinds: tuple[Kind, ...] = ()
    measured: Path | None = None
    show_all: bool = False
    optimise: bool = False
    budget: int | None = None
    keep: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    seconds: float = 60.0
    evidence: Path | None = None
    output: Format = Format.TEXT

    @property
    def question(self) -> Question:
        """Which of the three is asked. Raises PlumbError for none or several, or stray options."""
        change = bool(self.drop or self.merge)
        asked = [
            question
            for question, given in (
                (Question.CHANGE, change or (self.add and not self.optimise)),
                (Question.PROPOSE, self.propose),
                (Question.OPTIMISE, self.optimise),
            )
            if given
        ]
        if len(asked) != 1:
            said = " and ".join(asked) or "none of them"
            raise PlumbError(
                f"plumb trim takes one of {', '.join(Question)}; seen: {said}. "
                "See `plumb trim --help`."
            )
        self._check_strays(asked[0])
        return asked[0]

    def _check_strays(self, question: Question) -> None:
        belongs = {
            "--budget": (Question.OPTIMISE, self.budget is not None),
            "--keep": (Question.OPTIMISE, bool(self.keep)),
            "--weight": (Question.OPTIMISE, bool(self.weights)),
            "--kind": (Question.PROPOSE, bool(self.kinds)),
            "--measured": (Question.PROPOSE, self.measured is not None),
            "--all": (Question.PROPOSE, self.show_all),
            "--evidence": (Question.CHANGE, self.evidence is not None),
        }
        for option, (wanted, given) in belongs.items():
            if given and wanted is not question:
                raise PlumbError(f"{option} says something of {wanted}, which is not asked.")
        if self.weights and self.budget is None:
            raise PlumbError("--weight says what cells are worth within a --budget; give one.")
        if self.output is Format.MARKDOWN and question is not Question.CHANGE:
            raise PlumbError(
                f"--format markdown writes a pull request's text, of {Question.CHANGE}."
            )
        if not 0 < self.seconds < math.inf:
            raise PlumbError(f"--seconds {self.seconds:g}: wanted a number above 0.")


def weights(given: tuple[str, ...], claims: list[str]) -> dict[str, int]:
    """Claim to weight, from `PATTERN=N`; a later pattern wins. Raises PlumbError for others."""
    found: dict[str, int] = {}
    for text in given:
        pattern, equals, number = text.rpartition("=")
        if not equals or not (number.isascii() and number.isdigit() and len(number) < 10):
            raise PlumbError(f"--weight {text}: wanted CLAIM=N, N whole, of at most 9 digits.")
        names = matching(pattern, claims)
        if not names:
            raise PlumbError(f"--weight {text}: no claim is called so; see `plumb coverage`.")
        found |= dict.fromkeys(names, int(number))
    return found
