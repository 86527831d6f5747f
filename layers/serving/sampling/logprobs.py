"""Logarithms of probabilities that are reported with tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from layers.serving.messages import TokenLogprobs


def logprobs_of(
    logits: torch.Tensor, chosen: Sequence[int], counts: Sequence[int]
) -> list[TokenLogprobs]:
    """The chosen tokens' log-probabilities, and those of the most probable tokens.

    Args:
        logits: (n, vocab_size) float32, a row for each token.
        chosen: the tokens.
        counts: how many of the most probable to name, for each.
    """
    if not chosen:
        return []
    # float64: the sum over a large vocabulary would cost float32 its last digits.
    table = torch.log_softmax(logits.to(torch.float64), dim=-1)
    picked = table.gather(1, torch.tensor(chosen, device=table.device)[:, None])[:, 0].tolist()
    values, tokens = table.topk(min(max(counts), table.shape[1]), dim=-1)
    return [
        TokenLogprobs(logprob, top_ids[:count], top[:count])
        for logprob, top_ids, top, count in zip(
            picked, tokens.tolist(), values.tolist(), counts, strict=True
        )
    ]
