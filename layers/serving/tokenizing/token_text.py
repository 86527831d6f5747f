"""A token alone, as logprobs name it: its text and its bytes."""

from __future__ import annotations

import json
import re
from typing import Any

from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's


class TokenTexts:
    """The bytes of each token of a tokenizer.

    Byte-level tokenizers write each byte as a character (Radford et al. 2019, GPT-2's encoder),
    SentencePiece's write a lone byte as <0xHH> and a space as ▁.

    Args:
        tokenizer: of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        specification = json.loads(tokenizer.to_str())
        self._is_byte_level = _mentions(specification.get("decoder"), "ByteLevel")
        self._special = {token["id"] for token in specification.get("added_tokens", [])}
        self._byte_of = {character: byte for byte, character in _byte_characters().items()}

    def of(self, token: int) -> tuple[str, bytes]:
        """Its text, with replacement characters where its bytes alone are none, and its bytes."""
        piece = self._tokenizer.id_to_token(token)
        if piece is None:
            return "", b""
        data = self._bytes(token, piece)
        return data.decode("utf-8", "replace"), data

    def _bytes(self, token: int, piece: str) -> bytes:
        if token in self._special:
            return piece.encode()
        if self._is_byte_level:
            return b"".join(
                bytes([self._byte_of[c]]) if c in self._byte_of else c.encode() for c in piece
            )
        byte = _BYTE.fullmatch(piece)
        if byte:
            return bytes([int(byte[1], 16)])
        return piece.replace(_SPACE, " ").encode()


def _byte_characters() -> dict[int, str]:
    """The printable character that stands for each byte in GPT-2's vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table |= {byte: chr(0x100 + index) for index, byte in enumerate(others)}
    return table


def _mentions(specification: Any, kind: str) -> bool:
    if isinstance(specification, dict):
        return specification.get("type") == kind or any(
            _mentions(value, kind) for value in specification.values()
        )
    return isinstance(specification, list) and any(_mentions(v, kind) for v in specification)
