"""A model's folder for the known model: a byte-level tokenizer, a chat template, a config.json."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LOADER = "testing.serving.known_model:load"
EOS = 0
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if messages[0].content == 'refuse' %}{{ raise_exception('no such talk') }}{% endif %}"
    "<assistant>"
)


def byte_tokenizer() -> Tokenizer:
    """<eos> is 0, and each of the 256 bytes a token of its own behind it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<eos>": EOS, **{byte: index for index, byte in enumerate(alphabet, start=1)}}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>"])
    return tokenizer


def write_folder(folder: Path, max_position: int = 512, template: str | None = TEMPLATE) -> Path:
    """Writes what the server reads; start it with `--loader LOADER`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": max_position,
        "eos_token_ids": [EOS],
    }
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"eos_token": "<eos>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
