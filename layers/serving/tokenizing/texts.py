"""The texts that one detokenizer writes: tokens in, text out, stop strings kept back."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Tokenizer

from layers.serving.messages import NewTokens, ShownLogprobs, ShownToken, TextDelta, TokenLogprobs
from layers.serving.tokenizing.incremental import IncrementalDecoder
from layers.serving.tokenizing.stop_strings import StopStrings
from layers.serving.tokenizing.token_text import TokenTexts


@dataclass
class _Text:
    decoder: IncrementalDecoder
    stops: StopStrings
    is_stopped: bool = False


class Texts:
    """All texts in the making at this worker.

    Args:
        tokenizer: of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._token_texts = TokenTexts(tokenizer)
        self._texts: dict[int, _Text] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, new: NewTokens) -> tuple[TextDelta | None, bool]:
        """What a step's tokens show of a text.

        Returns:
            The delta, None if there is nothing to say; and whether a stop string ended the text,
            which its scheduler does not know yet.
        """
        text = self._texts.get(new.choice)
        if text is None:
            text = _Text(IncrementalDecoder(self._tokenizer), StopStrings(new.stop))
            self._texts[new.choice] = text
        if new.finish:
            # The scheduler's last word: nothing comes behind it.
            del self._texts[new.choice]
        if text.is_stopped:
            return None, False
        return self._show(text, new)

    def _show(self, text: _Text, new: NewTokens) -> tuple[TextDelta, bool]:
        shown = ""
        for count, token in enumerate(new.ids, start=1):
            is_text = not (new.has_eos and count == len(new.ids))
            more, stopped = text.stops.add(text.decoder.add(token) if is_text else "")
            shown += more
            if stopped:
                text.is_stopped = True
                return self._delta(new, shown, count, "stop"), not new.finish
        if new.finish:
            more, stopped = text.stops.add(text.decoder.finish())
            shown += more if stopped else more + text.stops.finish()
            finish = "stop" if stopped else new.finish
            return self._delta(new, shown, len(new.ids), finish), False
        return self._delta(new, shown, len(new.ids), ""), False

    def _delta(self, new: NewTokens, shown: str, count: int, finish: str) -> TextDelta:
        logprobs = [
            self._shown(token, logprobs)
            for token, logprobs in zip(new.ids[:count], new.logprobs[:count], strict=False)
        ]
        return TextDelta(new.choice, shown, count, logprobs, finish)

    def _shown(self, token: int, logprobs: TokenLogprobs) -> ShownLogprobs:
        top = zip(logprobs.top_ids, logprobs.top_logprobs, strict=True)
        return ShownLogprobs(
            self._token(token, logprobs.logprob), [self._token(i, value) for i, value in top]
        )

    def _token(self, token: int, logprob: float) -> ShownToken:
        text, data = self._token_texts.of(token)
        return ShownToken(text, list(data), logprob)
