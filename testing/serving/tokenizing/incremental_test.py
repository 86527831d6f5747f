"""Streamed text is the whole text, its characters never split and never taken back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from layers.serving.tokenizing.incremental import IncrementalDecoder
from testing.serving.tokenizing.tokenizers_made import byte_level, id_of, pieces_of, sentence_piece

BYTE_LEVEL = byte_level()
SENTENCE_PIECE = sentence_piece()
# Of one to four bytes, joined, combining, spaces, and the replacement character itself.
CHARACTERS = "aab bé日\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}\N{COMBINING ACUTE ACCENT}\ufffd \n"
TEXTS = st.text(alphabet=CHARACTERS, max_size=30)
QUICK = settings(max_examples=400, deadline=None, database=None, derandomize=True)


def streamed(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    decoder = IncrementalDecoder(tokenizer)
    return [*[decoder.add(token) for token in ids], decoder.finish()]


@QUICK
@given(TEXTS)
def test_byte_level_text_comes_out_whole(text: str) -> None:
    ids = BYTE_LEVEL.encode(text).ids
    parts = streamed(BYTE_LEVEL, ids)
    assert "".join(parts) == text


@QUICK
@given(TEXTS, st.integers(0, 30))
def test_pieces_and_bytes_come_out_whole_with_a_special_token_anywhere(text: str, at: int) -> None:
    ids = pieces_of(text)
    ids.insert(at, id_of(SENTENCE_PIECE, "<s>"))
    assert "".join(streamed(SENTENCE_PIECE, ids)) == text.removeprefix(" ")


@QUICK
@given(st.lists(st.integers(0, BYTE_LEVEL.get_vocab_size() - 1), max_size=30))
def test_any_tokens_at_all_give_what_the_library_gives_for_the_whole(ids: list[int]) -> None:
    assert "".join(streamed(BYTE_LEVEL, ids)) == BYTE_LEVEL.decode(ids)


def test_a_character_waits_for_its_last_byte() -> None:
    ids = [id_of(BYTE_LEVEL, piece) for piece in "ðŁĺĢ"] + BYTE_LEVEL.encode("b").ids
    assert streamed(BYTE_LEVEL, ids) == ["", "", "", "\N{GRINNING FACE}", "b", ""]


def test_a_character_that_never_ends_comes_at_the_end() -> None:
    ids = [id_of(BYTE_LEVEL, piece) for piece in "ðŁ"]
    assert streamed(BYTE_LEVEL, ids) == ["", "", "\ufffd"]


def test_bytes_that_are_no_text_are_not_held_for_ever() -> None:
    lone = id_of(BYTE_LEVEL, "Ģ")  # a byte that can only go on
    parts = streamed(BYTE_LEVEL, [lone] * 100)
    assert "".join(parts) == "\ufffd" * 100
    assert max(len(part) for part in parts) <= 16


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, SENTENCE_PIECE], ids=["bytes", "pieces"])
def test_the_window_stays_small(tokenizer: Tokenizer) -> None:
    decoder = IncrementalDecoder(tokenizer)
    for token in tokenizer.encode("ab a b").ids * 200:
        decoder.add(token)
    assert len(decoder._window) < 10
