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
    config = _read_config(folder / "tokenizer_config.json")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        template = own_file.read_text()
    specials = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in config.items()
        if name.endswith("_token") and isinstance(value, str | dict)
    }
    return TokenizerFiles(tokenizer, template, specials)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text())
    except ValueError as error:
        raise TokenizerError(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise TokenizerError(f"{path} holds a {type(config).__name__}, wanted an object")
    return config
