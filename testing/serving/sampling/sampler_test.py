"""Tokens come with the probabilities that temperature, top-k and top-p leave them.

Each distribution is judged by Pearson's chi-square at a level of 1e-8; with the 27 distributions of
this file a right sampler fails less than once in a million runs, were its noise drawn anew. It is
not: seeds are fixed, so that the tests give the same each time.
"""

from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from scipy import stats

from layers.serving.messages import SamplingParams
from layers.serving.sampling.sampler import keep_likely, sample

LEVEL = 1e-8
DRAWS = 20_000
Shares: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"
LOGITS = np.array([2.0, 1.0, 0.0, -1.0, 1.5, -3.0, 0.5, 1.0], dtype=np.float32)


def expected(temperature: float, top_k: int, top_p: float) -> Shares:
    """The definition, token by token."""
    scores = LOGITS.astype(np.float64) / temperature
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    kept = order[: top_k or len(order)]
    weights = np.exp(scores - scores.max())
    shares = {token: weights[token] / sum(weights[t] for t in kept) for token in kept}
    nucleus, total = [], 0.0
    for token in kept:
        if total >= top_p:
            break
        nucleus.append(token)
        total += shares[token]
    out: Shares = np.zeros(len(scores))
    out[nucleus] = weights[nucleus] / weights[nucleus].sum()
    return out


def require_distribution(counts: Shares, probabilities: Shares) -> None:
    assert not counts[probabilities == 0].any(), "a token that was left out was drawn"
    (seen,) = np.nonzero(probabilities)
    if len(seen) == 1:
        return
    result = stats.chisquare(counts[seen], counts.sum() * probabilities[seen])
    assert result.pvalue > LEVEL, (counts, probabilities)


def counts_of(tokens: list[int]) -> Shares:
    counts: Shares = np.bincount(tokens, minlength=len(LOGITS)).astype(np.float64)
    return counts


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 1.0), (3, 1.0), (0, 0.7), (5, 0.6), (1, 1.0), (0, 1e-9), (4, 0.999)]
)
def test_tokens_come_as_often_as_they_should(temperature: float, top_k: int, top_p: float) -> None:
    logits = torch.from_numpy(LOGITS).expand(DRAWS, -1)
    params = [
        SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        for seed in range(DRAWS)
    ]
    require_distribution(
        counts_of(sample(logits, params, [7] * DRAWS)), expected(temperature, top_k, top_p)
    )


def test_places_of_one_text_are_independent_draws() -> None:
    logits = torch.from_numpy(LOGITS).expand(DRAWS, -1)
    tokens = sample(logits, [SamplingParams(seed=42)] * DRAWS, list(range(DRAWS)))
    probabilities = expected(1.0, 0, 1.0)
    require_distribution(counts_of(tokens), probabilities)
    pairs = np.zeros((8, 8))
    np.add.at(pairs, (tokens[0::2], tokens[1::2]), 1)
    joint = np.outer(probabilities, probabilities)
    # Cells that expect fewer than five are put together: chi-square is no good for them.
    rare = joint * DRAWS / 2 < 5
    seen: Any = np.append(pairs[~rare], pairs[rare].sum())
    want = np.append(joint[~rare], joint[rare].sum()) * DRAWS / 2
    assert stats.chisquare(seen, want).pvalue > LEVEL


@pytest.mark.parametrize("fault", ["temperature", "top_p", "bias"])
def test_the_judge_sees_a_wrong_sampler(fault: str) -> None:
    """A temperature of 1.2 for 1, top-p of 0.84 for 0.7, a logit off by 0.3."""
    logits = torch.from_numpy(LOGITS).clone()
    logits[2] += 0.3 * (fault == "bias")
    temperature = 1.2 if fault == "temperature" else 1.0
    top_p = 0.84 if fault == "top_p" else 1.0
    want = expected(1.0, 0, 0.7 if fault == "top_p" else 1.0)
    kinds = [SamplingParams(temperature, top_p, seed=seed) for seed in range(DRAWS)]
    drawn = sample(logits.expand(DRAWS, -1), kinds, [7] * DRAWS)
    with pytest.raises(AssertionError):
        require_distribution(counts_of(drawn), want)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.standard_normal((60, 500)).astype(np.float32) * 3)
    params = [
        SamplingParams(
            temperature=[0.0, 0.7, 1.3][row % 3],
            top_k=[0, 7][row % 2],
            top_p=[1.0, 0.9, 0.5, 1.0][row % 4],
            seed=row,
        )
        for row in range(60)
    ]
    places = list(range(60))
    together = sample(logits, params, places)
    for row in range(60):
        assert sample(logits[row : row + 1], [params[row]], [row]) == [together[row]]
    order = rng.permutation(60).tolist()
    shuffled = sample(logits[order], [params[r] for r in order], [places[r] for r in order])
    assert shuffled == [together[r] for r in order]


def test_temperature_0_takes_the_largest_and_the_first_of_equals() -> None:
    logits = torch.tensor([[0.0, 5.0, 5.0, 1.0], [9.0, 9.0, 9.0, 9.0]])
    assert sample(logits, [SamplingParams(temperature=0)] * 2, [0, 1]) == [1, 0]


def test_top_k_takes_the_first_of_equals_and_top_p_never_everything_away() -> None:
    scores = torch.zeros(3, 4, dtype=torch.float64)
    kept = torch.isfinite(keep_likely(scores, [2, 0, 0], [1.0, 0.5, 1e-300]))
    assert kept.tolist() == [[True, True, False, False]] * 2 + [[True, False, False, False]]


def test_no_rows_are_no_tokens() -> None:
    assert sample(torch.empty(0, 8), [], []) == []


def test_the_smallest_temperature_takes_the_largest_logit() -> None:
    logits = torch.tensor([[5.0, 9.0, 7.0]])
    assert sample(logits, [SamplingParams(temperature=1e-310)], [0]) == [1]
