"""Bounds against the definition's sums, and by how often simulated right systems fall below."""

from math import comb

import numpy as np
import pytest

from testing.e2e.statistics.bounds import (
    Share,
    design_effect,
    highest_ratio,
    least_share,
    lower_bound,
)


def _below(k: int, trials: int, share: float) -> float:
    """P(X < k), X binomial."""
    return sum(comb(trials, i) * share**i * (1 - share) ** (trials - i) for i in range(k))


def test_the_quantile_is_the_binomials() -> None:
    # So many trials that the reference's own uncertainty is nothing.
    least = least_share(Share(9.8e8, 1e9), 100, 2e-4)
    k = round(least * 100)
    # ppf gives the smallest k with P(X ≤ k) ≥ rate: one below k is rarer than the rate.
    assert _below(k, 100, 0.98) <= 1e-4 < _below(k + 1, 100, 0.98)
    assert k == 91


def test_clopper_and_pearson_by_definition() -> None:
    low = lower_bound(Share(95, 100), 0.01)
    # At the bound, 95 or more hits of 100 have just that probability.
    assert 1 - _below(95, 100, low) == pytest.approx(0.01, rel=1e-6)
    assert lower_bound(Share(0, 100), 0.01) == 0.0


def test_right_systems_fall_below_no_more_often_than_said() -> None:
    rng = np.random.default_rng(1)
    share, runs, rate = 0.97, 20_000, 0.02
    references, asked = rng.binomial(2000, share, runs), rng.binomial(100, share, runs)
    bounds = {r: least_share(Share(int(r), 2000), 100, rate) for r in set(references)}
    failures = sum(a / 100 < bounds[r] for r, a in zip(references, asked, strict=True))
    assert failures <= rate * runs


def test_answers_that_go_together_count_for_fewer() -> None:
    # Answers are wholly right or wholly wrong: five trials say what one says.
    rng = np.random.default_rng(2)
    whole = (rng.random(4000) < 0.8) * 5.0
    assert design_effect(whole.tolist(), [5.0] * 4000) == pytest.approx(5, rel=0.1)
    alone = rng.binomial(5, 0.8, 4000).astype(float)
    assert design_effect(alone.tolist(), [5.0] * 4000) == pytest.approx(1, abs=0.15)
    assert design_effect([5.0, 5.0], [5.0, 5.0]) == 1.0
    tight, loose = (least_share(Share(8000, 10_000, d), 500, 1e-3) for d in (1.0, 5.0))
    assert loose < tight


def test_few_runs_give_a_wide_bound_of_ratios() -> None:
    rng = np.random.default_rng(3)
    exceeded = 0
    for _ in range(400):
        logs = rng.normal(1.0, 0.1, 20)
        exceeded += np.log(highest_ratio(np.exp(logs).tolist(), 0.01)) < 1.0 + 2.3263 * 0.1
    # The bound misses the true quantile in one of a hundred samples; 12 of 400 is 4.0 sd more.
    assert exceeded <= 12


@pytest.mark.parametrize(("rate", "trials"), [(0.0, 10), (1.0, 10), (0.1, 0)])
def test_what_makes_no_bound_is_refused(rate: float, trials: int) -> None:
    with pytest.raises(ValueError, match="wanted 0 to 1 and at least one trial"):
        least_share(Share(9, 10), trials, rate)
    with pytest.raises(ValueError, match="9 runs say too little"):
        highest_ratio([1.0] * 9, 1e-4)
    with pytest.raises(ValueError, match="1 answers have no variance, wanted two or more"):
        design_effect([1.0], [2.0])
