"""Faults of the detokenizer's processes."""

from __future__ import annotations

import time
from typing import Any

from layers.serving.messages import TextDelta
from layers.serving.tokenizing.incremental import IncrementalDecoder
from layers.serving.tokenizing.texts import Texts
from testing.e2e.faults.fault import fault

_SMOKE = "tokenizer_workers_smoke"


@fault("detokenizer", _SMOKE)
def each_token_alone() -> None:
    """Bytes of one character in several tokens are decoded apart."""

    def add(self: Any, token: int) -> str:
        return "" if token in self._special else self._decode([token])

    _patch(IncrementalDecoder, "add", add)


@fault("detokenizer", _SMOKE)
def spaces_lost() -> None:
    """Each piece is stripped, as some tokenizers strip a text's first space."""
    whole = IncrementalDecoder.add
    _patch(IncrementalDecoder, "add", lambda self, token: whole(self, token).strip())


@fault("detokenizer", _SMOKE)
def held_characters_lost() -> None:
    """Text that ends within a character is dropped, not held."""
    whole = IncrementalDecoder.add

    def add(self: Any, token: int) -> str:
        text = whole(self, token)
        if not text and self._known < len(self._window):
            del self._window[self._known :]
        return text

    _patch(IncrementalDecoder, "add", add)


@fault("detokenizer", _SMOKE)
def last_piece_lost() -> None:
    """Each piece is shown when the next one comes, and the last one never."""
    show = Texts._show
    kept: dict[int, str] = {}

    def lagging(self: Any, text: Any, new: Any) -> Any:
        delta, stopped = show(self, text, new)
        shown = kept.pop(new.choice, "")
        if delta.text:
            kept[new.choice] = delta.text
        elif shown and not delta.finish:
            kept[new.choice], shown = shown, ""
        return _with_text(delta, "" if delta.finish else shown), stopped

    _patch(Texts, "_show", lagging)


@fault("detokenizer", _SMOKE)
def all_at_the_end() -> None:
    """Text is kept back until the answer is whole: right, but not streamed."""
    show = Texts._show
    kept: dict[int, str] = {}

    def late(self: Any, text: Any, new: Any) -> Any:
        delta, stopped = show(self, text, new)
        kept[new.choice] = kept.get(new.choice, "") + delta.text
        return _with_text(delta, kept.pop(new.choice) if delta.finish else ""), stopped

    _patch(Texts, "_show", late)


@fault("detokenizer", _SMOKE, is_slow=True)
def slow_detokenizer() -> None:
    """Each piece takes 100 ms: right, but 25 texts a process wait for each other."""
    show = Texts._show

    def slow(self: Any, text: Any, new: Any) -> Any:
        time.sleep(0.1)
        return show(self, text, new)

    _patch(Texts, "_show", slow)


def _with_text(delta: TextDelta, text: str) -> TextDelta:
    return TextDelta(delta.choice, text, delta.tokens, delta.logprobs, delta.finish)


def _patch(owner: type, name: str, value: Any) -> None:
    setattr(owner, name, value)
