"""A model whose logits are a known function of the whole text: any error of the engine shows.

Its cache holds the tokens themselves. A row's hidden state is a hash of every token that the row
sees through the page table, in order, so that a wrong page, place, length, prefix or mask gives
other tokens. The draft module is right about as often as `AGREEMENT` says, and only if it was given
the model's hidden states and the right tokens all along; so tests know the drafts exactly too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from layers.attention.metadata import AttentionMetadata

Logits: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float32]]"

HIDDEN = 4  # 16 bits of the hash in each, exact in float32
AGREEMENT = 0.75
EMPTY = 0x243F6A8885A308D3
_BITS = (1 << 64) - 1
_STRANGE = 0x5DEECE66D


@dataclass(frozen=True)
class KnownConfig:
    """As `layers.serving.running.model.ModelConfig`."""

    vocab_size: int = 64
    hidden_size: int = HIDDEN
    max_position: int = 4096
    eos_token_ids: tuple[int, ...] = (0,)


@dataclass
class TokenCache:
    """(num_pages, page_size) of tokens, and of hashes as signed numbers."""

    tokens: torch.Tensor
    hashes: torch.Tensor


def mixed(text: int, token: int) -> int:
    """The hash of a text with one more token."""
    x = (text ^ ((token + 1) * 0x9E3779B97F4A7C15)) & _BITS
    x = ((x ^ (x >> 31)) * 0xBF58476D1CE4E5B9) & _BITS
    return x ^ (x >> 29)


def text_hash(tokens: Sequence[int]) -> int:
    """The hash, of 64 bits, of a whole text."""
    text = EMPTY
    for token in tokens:
        text = mixed(text, token)
    return text


def logits_of(text: int, vocab_size: int) -> Logits:
    """(vocab_size,) float32 of a text's hash: standard normal, times 3."""
    rng = np.random.Generator(np.random.Philox(key=[text, 0]))
    logits: Logits = 3 * rng.standard_normal(vocab_size, dtype=np.float32)
    return logits


def draft_output(entries: Sequence[tuple[int, int]]) -> int:
    """What the draft module takes the text's hash to be.

    Args:
        entries: for each place that it sees, the hidden state's hash there and the token behind.
    """
    told = mixed(*entries[-1])
    for (before, token), (text, _) in itertools.pairwise(entries):
        if mixed(before, token) != text:
            return told ^ _STRANGE
    is_right = (told * 0x9E3779B97F4A7C15 & _BITS) / 2**64 < AGREEMENT
    return told if is_right else told ^ _STRANGE


def to_hidden(hashes: Sequence[int]) -> torch.Tensor:
    """n hashes -> (n, HIDDEN) float32."""
    parts = [[(h >> shift) & 0xFFFF for shift in (0, 16, 32, 48)] for h in hashes]
    return torch.tensor(parts, dtype=torch.float32).reshape(-1, HIDDEN)


def from_hidden(hidden: torch.Tensor) -> list[int]:
    """As `to_hidden`, back."""
    return [sum(int(x) << (16 * i) for i, x in enumerate(row)) for row in hidden.tolist()]


class _Paged:
    def make_caches(
        self, num_pages: int, page_size: int, dtype: torch.dtype | None = None
    ) -> list[TokenCache]:
        """One cache."""
        nothing = torch.full((num_pages, page_size), -1, dtype=torch.int64)
        return [TokenCache(nothing, nothing.clone())]

    def cache_bytes_per_token(self, dtype: torch.dtype | None = None) -> int:
        """Of one cache."""
        return 16

    def plan(self, caches: list[TokenCache], metadata: AttentionMetadata) -> None:
        """Nothing to plan."""

    @staticmethod
    def texts(
        metadata: AttentionMetadata, positions: torch.Tensor
    ) -> Iterator[tuple[list[int], int]]:
        """For each text its slots in the order of places, and how many of them are queries."""
        starts = metadata.qo_indptr.tolist()
        for b, length in enumerate(metadata.kv_lens.tolist()):
            places = torch.arange(length)
            pages = metadata.page_table[b, places // metadata.page_size].to(torch.int64)
            slots = pages * metadata.page_size + places % metadata.page_size
            mine = slice(starts[b], starts[b + 1])
            queries = starts[b + 1] - starts[b]
            assert positions[mine].tolist() == list(range(length - queries, length))
            assert metadata.slots[mine].tolist() == slots[length - queries :].tolist()
            if metadata.mask is not None:
                chain = torch.ones(queries, queries, dtype=torch.bool).tril()
                assert torch.equal(metadata.mask[b], chain)
            yield slots.tolist(), queries


class KnownModel(_Paged):
    """The model; see the module.

    Args:
        config: its sizes.
        with_draft: whether it has a draft module.

    Attributes:
        num_rows: computed since it was made.
    """

    def __init__(self, config: KnownConfig | None = None, *, with_draft: bool = True) -> None:
        self.config = config or KnownConfig()
        self.device = torch.device("cpu")
        self.draft = KnownDraft() if with_draft else None
        self.num_rows = 0

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        caches: list[TokenCache],
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """(T,) -> (T, HIDDEN): the hash of what each row sees."""
        self.num_rows += len(input_ids)
        cached = caches[0].tokens.view(-1)
        cached[metadata.slots] = input_ids
        hashes: list[int] = []
        for slots, queries in self.texts(metadata, positions):
            tokens = cached[slots].tolist()
            text = text_hash(tokens[: len(tokens) - queries])
            for token in tokens[len(tokens) - queries :]:
                text = mixed(text, token)
                hashes.append(text)
        return to_hidden(hashes)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(n, HIDDEN) -> (n, vocab_size) float32."""
        rows = [logits_of(text, self.config.vocab_size) for text in from_hidden(hidden)]
        return torch.from_numpy(np.stack(rows))


class KnownDraft(_Paged):
    """The draft module: the entry of place p holds the hidden state of p and the token of p + 1."""

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        previous_hidden: torch.Tensor,
        caches: list[TokenCache],
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """(T,), (T, HIDDEN) -> (T, HIDDEN): `draft_output` of what each row sees."""
        tokens, hashes = caches[0].tokens.view(-1), caches[0].hashes.view(-1)
        tokens[metadata.slots] = input_ids
        signed = [h - (1 << 64) if h >> 63 else h for h in from_hidden(previous_hidden)]
        hashes[metadata.slots] = torch.tensor(signed, dtype=torch.int64)
        outputs: list[int] = []
        for slots, queries in self.texts(metadata, positions):
            unsigned = [h & _BITS for h in hashes[slots].tolist()]
            entries = list(zip(unsigned, tokens[slots].tolist(), strict=True))
            for end in range(len(entries) - queries + 1, len(entries) + 1):
                outputs.append(draft_output(entries[:end]))
        return to_hidden(outputs)


def load(folder: Path, **_: object) -> KnownModel:
    """A loader for the server: sizes from the folder's config.json."""
    config = json.loads((folder / "config.json").read_text())
    return KnownModel(
        KnownConfig(
            vocab_size=config["vocab_size"],
            max_position=config["max_position_embeddings"],
            eos_token_ids=tuple(config["eos_token_ids"]),
        )
    )
