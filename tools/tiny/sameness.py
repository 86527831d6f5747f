"""How often a model's greedy text stays the same when its values are rounded otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def same_texts(
    model: Any, exact: Any, prompts: Sequence[Sequence[int]], num_tokens: int, end: int
) -> torch.Tensor:
    """(N,) bool: whether `exact` says what `model` says, `num_tokens` at most.

    model: the reference, its values rounded to bf16.
    exact: the same without rounding. A batch of another size moves values by less than that, as
        only the order of sums differs before they are rounded.
    end: the token that ends a text.
    """
    texts = greedy(model, prompts, num_tokens, end)
    ids, lengths = _padded(texts, end)
    begins = torch.tensor([len(prompt) for prompt in prompts])
    places = torch.arange(1, ids.shape[1])
    counted = (places >= begins[:, None]) & (places < lengths[:, None])
    # Greedy texts are equal exactly if each token is the likeliest behind the equal ones before.
    likeliest = exact(ids[:, :-1]).argmax(-1)
    return ((likeliest == ids[:, 1:]) | ~counted).all(1)


def greedy(
    model: Any, prompts: Sequence[Sequence[int]], num_tokens: int, end: int
) -> list[list[int]]:
    """Prompts with the model's texts behind them, their ends included."""
    texts = [list(prompt) for prompt in prompts]
    live = list(range(len(texts)))
    for _ in range(num_tokens):
        ids, lengths = _padded([texts[i] for i in live], end)
        last = model.hidden(ids)[torch.arange(len(live)), lengths - 1]
        chosen = model.logits(last).argmax(-1).tolist()
        for i, token in zip(live, chosen, strict=True):
            texts[i].append(token)
        live = [i for i, token in zip(live, chosen, strict=True) if token != end]
        if not live:
            break
    return texts


def _padded(texts: Sequence[Sequence[int]], end: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, T) tokens, and (N,) lengths. What stands behind a text changes nothing before it."""
    lengths = torch.tensor([len(text) for text in texts])
    ids = torch.full((len(texts), int(lengths.max())), end)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    return ids, lengths
