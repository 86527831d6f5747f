"""Logprobs are the logarithms that whole numbers of digits give."""

from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
import torch

from layers.serving.sampling.logprobs import logprobs_of

EPSILON = 2.0**-53


def exact(logits: np.ndarray) -> tuple[np.ndarray, float]:
    """In extended precision, and how far off float64 may be: a sum of n terms and two roundings."""
    wide: Any = logits.astype(np.longdouble)
    top = wide.max()
    table = wide - top - np.log(np.exp(wide - top).sum())
    # exp and log are right to a last digit or two, a sum of n positive terms to n of them; the
    # subtractions round once each, by no more than the size of what they give.
    bound = EPSILON * (len(logits) + 8 + 4 * float(np.abs(table).max()))
    return table.astype(np.float64), bound


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
