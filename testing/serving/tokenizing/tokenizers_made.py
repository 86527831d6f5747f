"""Tokenizers of the two kinds that there are: bytes as characters, and pieces with lone bytes."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


def byte_level() -> Tokenizer:
    """Merges within and over the bytes of a character, as GPT-2's and Llama 3's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=310,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<eos>"],
        show_progress=False,
    )
    text = "hello world héé 日本語 \N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL} abc"
    tokenizer.train_from_iterator([text] * 3, trainer)
    return tokenizer


def sentence_piece() -> Tokenizer:
    """Pieces with a space as ▁, the first one's stripped, and bytes for all else: as Llama 2's."""
    pieces = ["<unk>", "\N{LOWER ONE EIGHTH BLOCK}", "a", "b", "\N{LOWER ONE EIGHTH BLOCK}a"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    vocabulary |= {f"<0x{byte:02X}>": 5 + byte for byte in range(256)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, [(pieces[1], "a")], byte_fallback=True, unk_token="<unk>")
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(pieces[1], " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def id_of(tokenizer: Tokenizer, piece: str) -> int:
    """Of a piece that the vocabulary has."""
    token = tokenizer.token_to_id(piece)
    assert token is not None, piece
    return int(token)


def pieces_of(text: str) -> list[int]:
    """The ids of a text in `sentence_piece`, each character a piece or its bytes."""
    ids: list[int] = []
    for character in text:
        known = {" ": 1, "a": 2, "b": 3}.get(character)
        ids += [known] if known else [5 + byte for byte in character.encode()]
    return ids
