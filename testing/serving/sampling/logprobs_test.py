"""Logprobs are the logarithms that whole numbers of digits give."""

from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
import torch

from layers.serving.sampling.logprobs import logprobs_of

EPSILON = 2.0**-53
EXTENDED = float(np.finfo(np.longdouble).eps)


def exact(logits: np.ndarray) -> tuple[np.ndarray, float]:
    """In extended precision, and how far off float64 may be.

    Each step's bound, in units of float64's rounding u = 2⁻⁵³, with s the sum of the exponentials:

    - x - max: float32 numbers that differ by less than 2²⁹ times have an exact difference;
    - exp: one ulp, 2 u of its size (SLEEF's `exp_u10`, by which torch vectorises; glibc has less);
    - the sum of n positive terms: (n - 1) u of its size, in any order (Higham 2002, "Accuracy and
      Stability of Numerical Algorithms", 4.2), so that with the terms' own 2 u log s is off by
      n + 1, whatever its size;
    - log: one ulp again, 2 u of log s;
    - the difference, and that of the comparison, rounded to float64: u of its size each.

    The comparison itself is off by as much in roundings of extended precision.
    """
    wide: Any = logits.astype(np.longdouble)
    top = wide.max()
    total = np.log(np.exp(wide - top).sum())
    table = wide - top - total
    units = len(logits) + 1 + 2 * float(total) + 2 * float(np.abs(table).max())
    return table.astype(np.float64), (EPSILON + EXTENDED) * units


@pytest.mark.parametrize(("size", "scale"), [(8, 1.0), (1000, 5.0), (50_000, 20.0)])
def test_logprobs_are_the_logarithms_of_the_probabilities(size: int, scale: float) -> None:
    rng = np.random.default_rng(size)
    logits = (rng.standard_normal((4, size)) * scale).astype(np.float32)
    chosen = rng.integers(0, size, 4).tolist()
    counts = [0, 1, 5, 20]
    for row, found in enumerate(logprobs_of(torch.from_numpy(logits), chosen, counts)):
        table, bound = exact(logits[row])
        assert abs(found.logprob - table[chosen[row]]) <= bound
        count = min(counts[row], size)
        assert found.top_ids == np.argsort(-table, kind="stable")[:count].tolist()
        assert np.abs(np.array(found.top_logprobs) - table[found.top_ids]).max(initial=0) <= bound


def test_two_tokens_by_hand() -> None:
    (found,) = logprobs_of(torch.tensor([[log(3.0), 0.0]], dtype=torch.float32), [1], [2])
    # Three to one, but for the rounding of log 3 to float32.
    assert found.logprob == pytest.approx(log(Fraction(1, 4)), abs=2.0**-23)
    assert found.top_ids == [0, 1]


def test_a_float32_logsumexp_would_be_seen() -> None:
    rng = np.random.default_rng(1)
    logits = (rng.standard_normal(50_000) * 20).astype(np.float32)
    table, bound = exact(logits)
    narrow = torch.log_softmax(torch.from_numpy(logits), dim=-1).numpy()
    assert np.abs(narrow - table).max() > 100 * bound
