"""A model's tokenizer and chat template, as a Hugging Face folder holds them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer


class TokenizerError(ValueError):
    """The folder's tokenizer cannot be read."""


@dataclass(frozen=True)
class TokenizerFiles:
    """What the workers need of the folder.

    Attributes:
        tokenizer: of tokenizer.json.
        chat_template: Jinja source, or None where the model has none.
        special_tokens: names such as "bos_token" to their text, for the template.
    """

    tokenizer: Tokenizer
    chat_template: str | None
    special_tokens: dict[str, str]


def read_tokenizer(folder: Path) -> TokenizerFiles:
    """Reads tokenizer.json, and tokenizer_config.json or chat_template.jinja where they are.

    Raises:
        TokenizerError: a file is missing or is not what it should be.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(f"{path} is missing: --model wants a folder with a tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower kind
        raise TokenizerError(f"{path} is no tokenizer: {error}") from error
    path = folder / "tokenizer_config.json"
    config = _read_config(path)
    template = _chat_template(config, path)
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        template = _text_of(own_file)
    return TokenizerFiles(tokenizer, template, _special_tokens(config, path))


def _chat_template(config: dict[str, Any], path: Path) -> str | None:
    template = config.get("chat_template")
    if isinstance(template, list):
        entries = [entry if isinstance(entry, dict) else {} for entry in template]
        named = {str(entry.get("name")): entry.get("template") for entry in entries}
        template = named.get("default")
    if template is not None and not isinstance(template, str):
        raise TokenizerError(
            f"{path}: 'chat_template' is {template!r:.60}, wanted Jinja as a string, or a list of "
            '{"name": ..., "template": ...}'
        )
    return template


def _special_tokens(config: dict[str, Any], path: Path) -> dict[str, str]:
    tokens = {}
    for name, value in config.items():
        if name.endswith("_token") and isinstance(value, str | dict):
            text = value.get("content") if isinstance(value, dict) else value
            if not isinstance(text, str):
                raise TokenizerError(
                    f"{path}: '{name}' is {value!r:.60}, wanted a string, or an object with a "
                    "string as its 'content'"
                )
            tokens[name] = text
    return tokens


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    text = _text_of(path)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise TokenizerError(f"{path} holds a {type(config).__name__}, wanted an object")
    return config


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path} is no UTF-8: {error}") from error
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read: {error.strerror}") from error
