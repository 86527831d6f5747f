"""Tokenizer files and chat templates, as they are published, and what is wrong with them."""

import json
from pathlib import Path

import pytest

from layers.serving.tokenizing.chat_template import ChatTemplate, ChatTemplateError
from layers.serving.tokenizing.files import TokenizerError, read_tokenizer
from layers.serving.tokenizing.token_text import TokenTexts
from testing.serving.model_folder import write_folder
from testing.serving.tokenizing.tokenizers_made import byte_level, id_of, sentence_piece

TALK = [{"role": "user", "content": "hi <b> & é"}]


def test_a_folder_is_read(tmp_path: Path) -> None:
    files = read_tokenizer(write_folder(tmp_path))
    assert files.special_tokens == {"eos_token": "<eos>"}
    assert files.tokenizer.encode("ab").tokens == ["a", "b"]


@pytest.mark.parametrize(
    "template", [[{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}], "d"]
)
def test_the_default_of_several_templates_is_taken(tmp_path: Path, template: object) -> None:
    write_folder(tmp_path)
    settings = {"chat_template": template, "bos_token": {"content": "<s>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    files = read_tokenizer(tmp_path)
    assert (files.chat_template, files.special_tokens) == ("d", {"bos_token": "<s>"})


def test_a_template_in_a_file_of_its_own_comes_first(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("own")
    assert read_tokenizer(tmp_path).chat_template == "own"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("tokenizer.json", "{}", "tokenizer.json is no tokenizer"),
        ("tokenizer_config.json", "{", "tokenizer_config.json is no JSON"),
        ("tokenizer_config.json", "[]", "holds a list, wanted an object"),
        ("tokenizer_config.json", "[" * 10**6, "tokenizer_config.json is no JSON"),
        ("tokenizer_config.json", b"\xff", "tokenizer_config.json is no UTF-8"),
        ("tokenizer_config.json", '{"chat_template": 5}', "'chat_template' is 5, wanted Jinja"),
        ("tokenizer_config.json", '{"chat_template": {}}', "'chat_template' is {}, wanted Jinja"),
        (
            "tokenizer_config.json",
            '{"chat_template": [5, {"name": "default", "template": 7}]}',
            "'chat_template' is 7, wanted Jinja",
        ),
        ("tokenizer_config.json", '{"bos_token": {"lstrip": true}}', "'bos_token' is {'lstrip'"),
        ("tokenizer_config.json", '{"bos_token": {"content": 5}}', "'bos_token' is {'content': 5}"),
        ("chat_template.jinja", b"\xff", "chat_template.jinja is no UTF-8"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, name: str, content: str | bytes | None, says: str
) -> None:
    write_folder(tmp_path)
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TokenizerError, match=says):
        read_tokenizer(tmp_path)


def test_a_template_sees_messages_special_tokens_and_that_an_answer_is_wanted() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}\n"
        "    {% if m.role == 'system' %}{% continue %}{% endif %}\n"
        "[{{ m.role }}] {{ m.content | trim }} {{ m | tojson }}\n"
        "{% endfor %}\n"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    template = ChatTemplate(source, {"bos_token": "<s>"})
    # Nothing is escaped as HTML would want it, and a block's own line leaves no trace.
    assert template.render([{"role": "system", "content": "x"}, *TALK]) == (
        '<s>[user] hi <b> & é {"role": "user", "content": "hi <b> & é"}\n[assistant]'
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (None, "no chat template"),
        ("{{ raise_exception('alternate, please') }}", "refuses: alternate, please"),
        ("{{ messages.append(1) }}", "refuses"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "refuses"),
        ("{{ 1 / 0 }}", "refuses: division by zero"),
    ],
)
def test_a_template_that_cannot_is_an_error_of_its_own(source: str | None, says: str) -> None:
    with pytest.raises(ChatTemplateError, match=says):
        ChatTemplate(source, {}).render(TALK)


def test_no_jinja_is_an_error_at_once() -> None:
    with pytest.raises(ChatTemplateError, match="is no Jinja"):
        ChatTemplate("{% for %}", {})


def test_the_bytes_of_a_text_are_those_of_its_tokens() -> None:
    text = "hello 日本 é\N{WOMAN}"
    tokenizer = byte_level()
    texts = TokenTexts(tokenizer)
    ids = tokenizer.encode(text).ids
    assert b"".join(texts.of(token)[1] for token in ids) == text.encode()
    assert texts.of(id_of(tokenizer, "<eos>")) == ("<eos>", b"<eos>")
    assert texts.of(10**6) == ("", b"")


def test_pieces_have_their_spaces_and_lone_bytes_are_bytes() -> None:
    tokenizer = sentence_piece()
    texts = TokenTexts(tokenizer)
    assert texts.of(4) == (" a", b" a")
    assert texts.of(5 + 0xE6) == ("\ufffd", b"\xe6")
    assert texts.of(id_of(tokenizer, "<s>")) == ("<s>", b"<s>")
