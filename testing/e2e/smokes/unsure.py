"""What a tiny model makes of prompts without a server."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from layers.models.load import load_model
from testing.e2e.checkpoints.folders import folder
from testing.harness.device import device
from testing.perf.serving.bare import BareLoop


def greedy_texts(
    checkpoint: str, prompts: Sequence[str], num_tokens: int, at_a_time: Sequence[int]
) -> list[list[str]]:
    """What the model alone says, `num_tokens` at most, for each of these batch sizes.

    Batches of other sizes add up in another order: where two tokens are about as likely, they may
    differ, and so may a server that is right.
    """
    place = folder(checkpoint)
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    model = load_model(place, device=device(), with_draft=False)
    loop, ids = BareLoop(model), [tokenizer.encode(prompt).ids for prompt in prompts]
    ends = set(model.config.eos_token_ids)
    found = []
    for size in at_a_time:
        rows: list[list[int]] = []
        for start in range(0, len(ids), size):
            rows += loop.run(ids[start : start + size], num_tokens).tokens
        found.append([tokenizer.decode(_until(row, ends)) for row in rows])
    return found


def _until(row: Sequence[int], ends: set[int]) -> list[int]:
    length = next((i for i, token in enumerate(row) if token in ends), len(row))
    return list(row[:length])
