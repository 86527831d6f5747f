"""Half a character in any answer is a failure, unless the model's own tokens are no text."""

from types import SimpleNamespace
from typing import Any

import pytest

from testing.e2e.asking.ask import Answer
from testing.e2e.smokes import tokenizer_workers
from testing.e2e.smokes.figures import Figures
from testing.e2e.tasks.problems import Problem

HALF = "\N{REPLACEMENT CHARACTER}"
SERVER: Any = SimpleNamespace(url="http://127.0.0.1:1", model="dense")


def _answer(prompt: str, answer: str, parts: list[str]) -> Answer:
    problem = Problem("copying", prompt, answer)
    return Answer(problem, "".join(parts), "stop", parts=parts)


GOOD = _answer("copy ñ:", " ñ", [" ", "ñ"])
SPLIT = _answer("copy 字:", " 字", [" ", HALF, HALF])


def _failures(
    monkeypatch: pytest.MonkeyPatch, streamed: list[Answer], again: list[Answer], own: list[str]
) -> list[str]:
    monkeypatch.setattr(tokenizer_workers, "ask_all", lambda *_, **__: again)
    monkeypatch.setattr(tokenizer_workers, "greedy_texts", lambda *_: [own])
    figures = Figures("a", "dense", assertions=1)
    tokenizer_workers.check_characters(SERVER, streamed, figures)
    return figures.failures


def test_one_split_character_among_right_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = _failures(monkeypatch, [GOOD] * 99 + [SPLIT], [SPLIT], [" 字"])
    assert said == f"a part of ' 字' is no text, as in [' ', '{HALF}', '{HALF}']"


def test_tokens_that_are_no_text_are_the_models_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _failures(monkeypatch, [GOOD, SPLIT], [SPLIT], [f" {HALF}"]) == []
    assert _failures(monkeypatch, [GOOD, SPLIT], [GOOD], [" 字"]) == []


def test_without_a_right_answer_beyond_ascii_nothing_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (said,) = _failures(monkeypatch, [_answer("copy a:", " a", [" a"])], [], [])
    assert said == "no right answer holds a character beyond ASCII"
