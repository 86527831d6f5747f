"""From logits to tokens, a row at a time in effect: no row's token depends on another row.

Sampling is by the Gumbel-max trick: the largest of logit / temperature + noise is a draw from the
softmax. With the noise of `layers.serving.sampling.noise` a draft model that draws with the same
noise tends to draw the same token, and the model's own draw does not depend on the drafts at all
(Daliri, Musco, Suresh 2024, "Coupling without communication and drafter-invariant speculative
decoding").
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from layers.serving.messages import SamplingParams
from layers.serving.sampling.noise import gumbel


def sample(
    logits: torch.Tensor, params: Sequence[SamplingParams], places: Sequence[int]
) -> list[int]:
    """Chooses a token for each row.

    Args:
        logits: (n, vocab_size) float32.
        params: of each row's text.
        places: the index in its text of the token to be chosen.

    Returns:
        n token ids.
    """
    if not params:
        return []
    chosen = logits.argmax(dim=-1)
    drawn = [row for row, p in enumerate(params) if p.temperature > 0]
    if drawn:
        chosen[drawn] = _draw(logits[drawn], [params[r] for r in drawn], [places[r] for r in drawn])
    ids: list[int] = chosen.tolist()
    return ids


def _draw(
    logits: torch.Tensor, params: Sequence[SamplingParams], places: Sequence[int]
) -> torch.Tensor:
    device = logits.device
    temperature = torch.tensor([p.temperature for p in params], dtype=torch.float64, device=device)
    wide = logits.to(torch.float64)
    # Below the largest, so that no temperature is so small that several overflow and look alike.
    scores = (wide - wide.amax(dim=-1, keepdim=True)) / temperature[:, None]
    cut = [row for row, p in enumerate(params) if p.top_k or p.top_p < 1]
    if cut:
        scores[cut] = keep_likely(
            scores[cut], [params[r].top_k for r in cut], [params[r].top_p for r in cut]
        )
    seeds = torch.tensor([p.seed for p in params], dtype=torch.int64, device=device)
    where = torch.tensor(places, dtype=torch.int64, device=device)
    return (scores + gumbel(seeds, where, scores.shape[1])).argmax(dim=-1)


def keep_likely(scores: torch.Tensor, top_k: Sequence[int], top_p: Sequence[float]) -> torch.Tensor:
    """-inf in place of tokens that top-k or top-p leave out; at least one token stays.

    Top-p counts by the probabilities among those that top-k keeps. Of equal scores the smaller
    token comes first.

    Args:
        scores: (n, vocab_size) float64, logits over the temperature.
        top_k: of each row; 0 keeps all.
        top_p: of each row; a token stays if those before it sum to less than top_p.
    """
    vocab_size = scores.shape[1]
    device = scores.device
    ordered, tokens = torch.sort(scores, dim=-1, descending=True, stable=True)
    counts = torch.tensor([k or vocab_size for k in top_k], device=device)
    shares = torch.tensor(top_p, dtype=torch.float64, device=device)
    ranks = torch.arange(vocab_size, device=device)
    ordered = ordered.masked_fill(ranks[None, :] >= counts[:, None], -torch.inf)
    probabilities = torch.softmax(ordered, dim=-1)
    before = torch.cumsum(probabilities, dim=-1) - probabilities
    # The first has nothing before it, but top_p may be as small as the rounding.
    is_out = (before >= shares[:, None]) & (shares < 1)[:, None] & (ranks > 0)[None, :]
    ordered = ordered.masked_fill(is_out, -torch.inf)
    return torch.full_like(scores, -torch.inf).scatter(1, tokens, ordered)
