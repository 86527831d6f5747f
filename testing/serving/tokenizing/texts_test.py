"""A detokenizer's texts: what is shown, what is counted, and when a text is forgotten."""

from layers.serving.messages import NewTokens, TokenLogprobs
from layers.serving.tokenizing.texts import Texts
from testing.serving.model_folder import EOS, byte_tokenizer

TOKENIZER = byte_tokenizer()


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text).ids)


def new(text: str, *, stop: list[str] | None = None, finish: str = "") -> NewTokens:
    return NewTokens(1, ids(text), [], stop or [], finish)


def test_a_text_is_forgotten_at_its_end_and_not_before() -> None:
    texts = Texts(TOKENIZER)
    texts.add(new("ab"))
    assert len(texts) == 1
    delta, is_news = texts.add(new("c", finish="length"))
    assert delta is not None and (delta.text, delta.finish, delta.tokens) == ("c", "length", 1)
    assert not is_news and len(texts) == 0


def test_a_stop_string_ends_the_text_and_its_scheduler_is_told_once() -> None:
    texts = Texts(TOKENIZER)
    delta, is_news = texts.add(new("abXYcd", stop=["XY"]))
    assert delta is not None and (delta.text, delta.finish) == ("ab", "stop")
    assert delta.tokens == 4, "tokens behind the stop string are not the text's"
    assert is_news
    # The scheduler has not heard yet, and goes on.
    assert texts.add(new("more")) == (None, False)
    assert texts.add(NewTokens(1, [], [], [], "abort")) == (None, False)
    assert len(texts) == 0


def test_a_stop_string_in_the_last_tokens_is_no_news_to_the_scheduler() -> None:
    texts = Texts(TOKENIZER)
    delta, is_news = texts.add(new("aX", stop=["X"], finish="length"))
    assert delta is not None and (delta.text, delta.finish, is_news) == ("a", "stop", False)
    assert len(texts) == 0


def test_half_a_stop_string_comes_at_the_end() -> None:
    texts = Texts(TOKENIZER)
    first, _ = texts.add(new("abX", stop=["XY"]))
    assert first is not None and first.text == "ab"
    last, _ = texts.add(NewTokens(1, [EOS], [], [], "stop", has_eos=True))
    assert last is not None and (last.text, last.finish, last.tokens) == ("X", "stop", 1)


def test_a_stop_string_of_text_that_was_held_is_found_at_the_end() -> None:
    texts = Texts(TOKENIZER)
    # The first byte of a character: held, and at the end a replacement character.
    first, _ = texts.add(NewTokens(1, ids("é")[:1], [], ["\ufffd"], ""))
    assert first is not None and first.text == ""
    last, _ = texts.add(NewTokens(1, [], [], [], "length"))
    assert last is not None and (last.text, last.finish) == ("", "stop")


def test_logprobs_name_tokens_and_their_bytes() -> None:
    texts = Texts(TOKENIZER)
    e = ids("é")
    logprobs = [TokenLogprobs(-0.5, [e[0], EOS], [-0.5, -2.0]), TokenLogprobs(-1.0, [], [])]
    delta, _ = texts.add(NewTokens(1, e, logprobs, [], ""))
    assert delta is not None and delta.text == "é"
    assert [shown.token.bytes for shown in delta.logprobs] == [[0xC3], [0xA9]]
    assert [(t.text, t.bytes) for t in delta.logprobs[0].top] == [
        ("\ufffd", [0xC3]),
        ("<eos>", list(b"<eos>")),
    ]


def test_the_end_of_sequence_token_counts_and_shows_nothing() -> None:
    texts = Texts(TOKENIZER)
    delta, _ = texts.add(NewTokens(1, [*ids("a"), EOS], [], [], "stop", has_eos=True))
    assert delta is not None and (delta.text, delta.tokens) == ("a", 2)
