"""Thresholds of smokes: what a right system falls below no more often than a stated rate.

What a right system achieves was measured on many problems with the reference model, and the smoke
asks a few: both are samples. Half of the rate is spent on the first, by Clopper and Pearson's bound
(1934) of the true share, and half on the second, by the binomial's own quantile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

RATE = 1e-4
"""Runs of a smoke that may fail although all is right; its assertions share it."""

FEWEST_RUNS = 10
"""Recorded runs below which a bound of ratios says too little."""


@dataclass(frozen=True)
class Share:
    """`hits` of `trials` in a reference measurement.

    design_effect: by how much trials of one answer go together: the variance of the share, as
        answers differ, over the binomial's. At least 1.
    """

    hits: float
    trials: float
    design_effect: float = 1.0

    @property
    def value(self) -> float:
        """Hits over trials."""
        return self.hits / self.trials


def least_share(reference: Share, trials: int, rate: float) -> float:
    """The lowest share of hits among `trials` that a right system falls below at most at `rate`.

    Trials that go together count for fewer: trials / design effect. For parts of a trial, such as
    the accepted share of a chain of drafts, the binomial is the worst case of that mean
    (Hoeffding 1963, theorem 1).

    Raises:
        ValueError: a rate that is none, or no trials.
    """
    if not 0 < rate < 1 or trials < 1:
        raise ValueError(f"rate {rate} and {trials} trials, wanted 0 to 1 and at least one trial")
    lowest = lower_bound(reference, rate / 2)
    effective = max(1, int(trials / reference.design_effect))
    return float(stats.binom.ppf(rate / 2, effective, lowest)) / effective


def lower_bound(reference: Share, rate: float) -> float:
    """Clopper and Pearson's: the true share is lower at most at `rate`."""
    hits, trials = (n / reference.design_effect for n in (reference.hits, reference.trials))
    return float(stats.beta.ppf(rate, hits, trials - hits + 1)) if hits else 0.0


def design_effect(hits: list[float], trials: list[float]) -> float:
    """Of answers, each with its hits and trials; see `Share`.

    The variance of a ratio of sums over clusters (Cochran 1977, section 3.12) over p(1 - p)/n.

    Raises:
        ValueError: fewer than two answers, which have no variance.
    """
    if len(hits) < 2:
        raise ValueError(f"{len(hits)} answers have no variance, wanted two or more")
    h, n = np.asarray(hits), np.asarray(trials)
    share = h.sum() / n.sum()
    if share in (0.0, 1.0):
        return 1.0
    between = len(h) / (len(h) - 1) * np.sum((h - share * n) ** 2) / n.sum() ** 2
    return max(1.0, float(between / (share * (1 - share) / n.sum())))


def highest_ratio(measured: list[float], rate: float, confidence: float = 0.99) -> float:
    """The upper tolerance bound of ratios, taken as lognormal, that `rate` of runs exceed.

    measured: of runs in which all was right. The bound holds with `confidence`, as few runs say
        little of a tail (Hahn and Meeker 1991, section 4.6: noncentral t).

    Raises:
        ValueError: fewer than ten runs.
    """
    runs = len(measured)
    if runs < FEWEST_RUNS:
        raise ValueError(f"{runs} runs say too little of a tail, wanted {FEWEST_RUNS} or more")
    logs = np.log(measured)
    far = stats.norm.ppf(1 - rate) * np.sqrt(runs)
    factor = stats.nct.ppf(confidence, runs - 1, far) / np.sqrt(runs)
    return float(np.exp(logs.mean() + factor * logs.std(ddof=1)))
