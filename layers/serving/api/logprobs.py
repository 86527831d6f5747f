"""Logprobs in the two shapes that OpenAI's interface has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layers.serving.messages import ShownLogprobs, ShownToken


def for_chat(logprobs: Sequence[ShownLogprobs]) -> dict[str, Any]:
    """As of chat completions: tokens with their bytes."""
    content = [
        {**_chat_token(shown.token), "top_logprobs": [_chat_token(token) for token in shown.top]}
        for shown in logprobs
    ]
    return {"content": content, "refusal": None}


def for_completion(logprobs: Sequence[ShownLogprobs], offset: int) -> dict[str, Any]:
    """As of completions: parallel lists.

    Args:
        logprobs: of the tokens.
        offset: characters of the text's tokens before these.
    """
    offsets = []
    for shown in logprobs:
        offsets.append(offset)
        offset += len(_name(shown.token))
    return {
        "tokens": [_name(shown.token) for shown in logprobs],
        "token_logprobs": [shown.token.logprob for shown in logprobs],
        # The token itself too where it is none of the most probable: one more than was asked for.
        "top_logprobs": [
            {_name(token): token.logprob for token in (*shown.top, shown.token)}
            for shown in logprobs
        ],
        "text_offset": offsets,
    }


def num_characters(logprobs: Sequence[ShownLogprobs]) -> int:
    """By which `offset` moves on behind these."""
    return sum(len(_name(shown.token)) for shown in logprobs)


def _chat_token(token: ShownToken) -> dict[str, Any]:
    return {"token": _name(token), "logprob": token.logprob, "bytes": token.bytes}


def _name(token: ShownToken) -> str:
    # Bytes that are no text alone have a name of their own, or two tokens would have the same.
    if "\N{REPLACEMENT CHARACTER}" in token.text:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
    return token.text
