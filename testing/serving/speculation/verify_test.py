"""Which drafts are kept, by hand; and that what is drawn has the model's distribution."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from layers.serving.messages import SamplingParams
from layers.serving.sampling.sampler import sample
from layers.serving.speculation.verify import accept

# With the six judgements of this file a right verification fails less than once in ten million
# runs, were its noise drawn anew; its seeds are fixed.
LEVEL = 1e-8
DRAWS = 10_000
VOCABULARY = 5


@pytest.mark.parametrize(
    ("drafts", "chosen", "want"),
    [
        ([], [7], [7]),
        ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4]),
        ([1, 2, 3], [1, 2, 9, 4], [1, 2, 9]),
        ([1, 2, 3], [9, 2, 3, 4], [9]),
        ([1, 1, 1], [1, 2, 1, 1], [1, 2]),
    ],
)
def test_drafts_are_kept_up_to_the_first_wrong_one(
    drafts: list[int], chosen: list[int], want: list[int]
) -> None:
    assert accept(drafts, chosen) == want


@pytest.mark.parametrize("chosen", [[1, 2], [1, 2, 3, 4]])
def test_there_is_one_choice_more_than_drafts(chosen: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"{len(chosen)} choices for 2 drafts, wanted one more"):
        accept([1, 2], chosen)


def table(seed: int) -> torch.Tensor:
    """(VOCABULARY, VOCABULARY) logits of the next token behind each token."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((VOCABULARY, VOCABULARY)).astype(np.float32) * 1.5)


def pairs(target: torch.Tensor, draft: torch.Tensor | None, seeds: range) -> list[tuple[int, int]]:
    """The two tokens behind token 0, by chains of two drafts where there is a draft model."""
    params = [SamplingParams(seed=seed) for seed in seeds]
    count = len(params)
    start = [0] * count
    if draft is None:
        first = sample(target[start], params, [1] * count)
        second = sample(target[first], params, [2] * count)
        return list(zip(first, second, strict=True))
    one = sample(draft[start], params, [1] * count)
    two = sample(draft[one], params, [2] * count)
    choices = [
        sample(target[before], params, [place] * count)
        for place, before in ((1, start), (2, one), (3, two))
    ]
    texts = []
    for row, seed in enumerate(seeds):
        text = accept([one[row], two[row]], [choice[row] for choice in choices])
        if len(text) < 2:
            # The next step: nothing is drafted here, the model goes on.
            text += sample(target[[text[0]]], [SamplingParams(seed=seed)], [2])
        texts.append((text[0], text[1]))
    return texts


def joint(target: torch.Tensor) -> np.ndarray:
    probabilities = torch.softmax(target.to(torch.float64), dim=-1).numpy()
    together: np.ndarray = probabilities[0][:, None] * probabilities
    return together


def pvalue(texts: list[tuple[int, int]], want: np.ndarray) -> float:
    counts = np.zeros_like(want)
    np.add.at(counts, tuple(np.array(texts).T), 1)
    return float(stats.chisquare(counts.ravel(), len(texts) * want.ravel()).pvalue)


@pytest.mark.parametrize("draft_seed", [1, 2, 3])
def test_texts_have_the_models_distribution_whatever_is_drafted(draft_seed: int) -> None:
    target, draft = table(0), table(draft_seed)
    with_drafts = pairs(target, draft, range(DRAWS))
    assert pvalue(with_drafts, joint(target)) > LEVEL
    assert with_drafts == pairs(target, None, range(DRAWS)), "each text is the one without drafts"


def test_the_judge_sees_drafts_that_are_kept_too_often() -> None:
    target, draft = table(0), table(1)
    rng = np.random.default_rng(0)
    texts = pairs(target, None, range(DRAWS))
    drafted = pairs(draft, None, range(DRAWS))
    # Five of a hundred first drafts are kept though the model chose otherwise.
    kept = rng.random(DRAWS) < 0.05
    wrong = [d if k else t for t, d, k in zip(texts, drafted, kept, strict=True)]
    assert pvalue(wrong, joint(target)) < LEVEL


def test_the_same_noise_makes_like_models_agree() -> None:
    """As often as the coupling promises at least: (1 - tv) / (1 + tv), Daliri et al., theorem 1."""
    target = table(0)[0]
    draft = target + torch.from_numpy(np.random.default_rng(5).standard_normal(VOCABULARY) * 0.3)
    p, q = (torch.softmax(x.to(torch.float64), dim=-1) for x in (target, draft))
    distance = float((p - q).abs().sum() / 2)
    promised = (1 - distance) / (1 + distance)
    params = [SamplingParams(seed=seed) for seed in range(DRAWS)]
    places = [1] * DRAWS
    mine = sample(target.expand(DRAWS, -1), params, places)
    theirs = sample(draft.float().expand(DRAWS, -1), params, places)
    same = sum(a == b for a, b in zip(mine, theirs, strict=True))
    assert stats.binom.cdf(same, DRAWS, promised) > LEVEL
    # Noise of its own would make them agree less: the test tells the two apart.
    assert stats.binom.cdf(same, DRAWS, float((p * q).sum())) > 1 - LEVEL


def test_chains_of_every_agreement_are_cut_where_they_should_be() -> None:
    for drafts in itertools.product(range(2), repeat=3):
        for chosen in itertools.product(range(2), repeat=4):
            got = accept(drafts, chosen)
            kept = len(got) - 1
            assert drafts[:kept] == chosen[:kept] and got[-1] == chosen[kept]
            assert kept == 3 or drafts[kept] != chosen[kept]
