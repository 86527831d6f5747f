"""How many drafts of the multi-token prediction module a verification would accept."""

from __future__ import annotations

from typing import Any

import torch

from tools.tiny.data import Texts


def accept_lengths(model: Any, some: Texts, draft_tokens: int) -> list[list[int]]:
    """Tokens that each verification of each answer yields, the model's own included.

    model: `DeepseekV3` with a draft module.
    some: texts whose answers the model gets right; where it does not, drafts are judged by the
        right answer all the same.
    draft_tokens: of a chain, each from the hidden state that the one before it left.

    Returns:
        A list a text, of numbers from 1 to draft_tokens + 1.
    """
    with torch.no_grad():
        hits = chain_hits(model, some, draft_tokens)
    return lengths_of(hits, some, draft_tokens)


def lengths_of(hits: torch.Tensor, some: Texts, draft_tokens: int) -> list[list[int]]:
    """As `accept_lengths`, of `chain_hits` of chains that are as long or longer."""
    return [
        _walk(hits[row], *_bounds(some.counted[row].cpu()), draft_tokens)
        for row in range(len(some))
    ]


def chain_hits(model: Any, some: Texts, draft_tokens: int) -> torch.Tensor:
    """(N, T, draft_tokens) bool: whether draft k after position i is the token i + 2 + k.

    Only where a chain of the row's answer can begin; elsewhere nothing is drafted, and nothing hit.
    """
    count, length = some.ids.shape
    bounds = torch.tensor([_bounds(row) for row in some.counted.cpu()])
    firsts, lasts = bounds.to(some.ids.device).unbind(1)
    hidden = model.hidden(some.ids)
    hits = torch.zeros(count, length, draft_tokens, dtype=torch.bool)
    for i in range(length - 2):
        rows = ((firsts <= i + 1) & (i + 1 < lasts)).nonzero()[:, 0]
        if not len(rows):
            continue
        states, tokens = hidden[rows, : i + 1], some.ids[rows, 1 : i + 2]
        for k in range(min(draft_tokens, length - 2 - i)):
            last = model.draft_hidden(tokens, states)[:, -1:]
            proposed = model.logits(last).argmax(-1)
            hits[rows.cpu(), i, k] = (proposed[:, 0] == some.ids[rows, i + 2 + k]).cpu()
            states, tokens = torch.cat((states, last), 1), torch.cat((tokens, proposed), 1)
    return hits


def _bounds(counted: torch.Tensor) -> tuple[int, int]:
    places = counted.nonzero()[:, 0]
    return int(places[0]), int(places[-1])


def _walk(hits: torch.Tensor, first: int, last: int, draft_tokens: int) -> list[int]:
    """`first` comes out of the prompt's forward; the end's token, at `last`, stops all."""
    lengths, place = [], first
    while place < last:
        accepted = 0
        while accepted < draft_tokens and place + accepted < last and hits[place - 1, accepted]:
            accepted += 1
        # The end may come as a draft; nothing follows it.
        lengths.append(min(accepted + 1, last - place))
        place += accepted + 1
    return lengths
