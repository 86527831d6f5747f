"""Token ids to text as they come, each character whole and nothing ever taken back."""

from __future__ import annotations

from tokenizers import Tokenizer

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
# A character has four bytes at most. Behind so many tokens without a whole one, the bytes are none.
_MOST_HELD = 16


class IncrementalDecoder:
    """The text of one stream of tokens.

    A token's text depends on its neighbours (spaces, bytes of one character), so a window of tokens
    is decoded with and without the new ones, and the difference is the new text: the way of
    Hugging Face's text-generation-inference. Text that ends in the middle of a character is held.

    Args:
        tokenizer: of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = {
            token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special
        }
        self._window: list[int] = []
        self._known = 0  # tokens of the window whose text is out
        self._known_text = ""

    def add(self, token: int) -> str:
        """The text that is certain now, perhaps none."""
        if token in self._special:
            return ""
        self._window.append(token)
        text = self._decode(self._window)
        is_incomplete = text.endswith(_INCOMPLETE)
        if is_incomplete and len(self._window) - self._known < _MOST_HELD:
            return ""
        return self._advance(text)

    def finish(self) -> str:
        """The text still held: the stream ends here."""
        if self._known == len(self._window):
            return ""
        return self._advance(self._decode(self._window))

    def _advance(self, text: str) -> str:
        new = text[len(self._known_text) :]
        told = self._window[self._known :]
        told_text = self._decode(told)
        self._known_text = text
        if told_text:
            # They stay for their neighbours' sake, those before them go. Without any text the next
            # token would look like the first, which some tokenizers strip of its space.
            self._window, self._known_text = told, told_text
        self._known = len(self._window)
        return new

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text
