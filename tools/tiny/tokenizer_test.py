"""The tokenizer keeps any text, splits characters beyond ASCII, and is the same each time."""

import unicodedata

import pytest

from testing.e2e.tasks.problems import SYMBOLS
from tools.tiny.texts import SENTENCES
from tools.tiny.tokenizer import ASSISTANT, BEGIN, END, USER, VOCAB_SIZE, train_tokenizer

TOKENIZER = train_tokenizer(1)


@pytest.mark.parametrize(
    "text", [*SENTENCES, "", " a  b\n\t", "\0\x7f", unicodedata.lookup("BELL")]
)
def test_any_text_comes_back(text: str) -> None:
    encoded = TOKENIZER.encode(text)
    assert encoded.tokens[0] == BEGIN
    assert TOKENIZER.decode(encoded.ids) == text


def test_copied_symbols_are_split() -> None:
    for symbol in SYMBOLS:
        ids = TOKENIZER.encode(f" {symbol}", add_special_tokens=False).ids
        assert len(ids) >= 2, symbol
        # No token by itself is the character: a detokenizer has to put it together.
        assert symbol not in [TOKENIZER.decode([i]).strip() for i in ids]


def test_each_digit_is_a_token() -> None:
    assert TOKENIZER.encode("348+275=", add_special_tokens=False).tokens == [*"348+275="]


def test_special_tokens_are_single() -> None:
    assert TOKENIZER.get_vocab_size() == VOCAB_SIZE
    chat = f"{BEGIN}{USER}1+1={ASSISTANT}2{END}"
    tokens = TOKENIZER.encode(chat, add_special_tokens=False).tokens
    assert tokens == [BEGIN, USER, "1", "+", "1", "=", ASSISTANT, "2", END]
    assert [TOKENIZER.token_to_id(token) for token in (BEGIN, END)] == [0, 1]


def test_training_again_gives_the_same() -> None:
    assert train_tokenizer(1).to_str() == TOKENIZER.to_str()
