"""The power statistic: false alarms counted, dependence allowed for, places named."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rows.rows import Rows
from testing.oracles.error_model.noise import Noise
from testing.oracles.rounding import BF16, round_to

REQUESTS: Int64 = np.repeat([0, 1, 2], [3, 1, 4])


def rows_of(error: Float64, std: Float64, exact: Float64) -> Rows:
    noise = Noise(8 * std, std, np.zeros_like(std))
    return Rows(round_to(exact + error, BF16), exact, noise, BF16, REQUESTS)


@pytest.mark.parametrize("dependent", [False, True])
def test_right_outputs_raise_no_alarm(dependent: bool) -> None:
    # With dependent errors every value of a row has the same sign and size, as in the model.
    rng = np.random.default_rng(0)
    for _ in range(300):
        exact = rng.standard_normal((8, 2, 16))
        std = np.full(exact.shape, 2.0**-8)
        draw = rng.standard_normal((8, 2, 1 if dependent else 16))
        rows = rows_of(draw * std, std, exact)
        assert not rows.outside().any()
        assert not any(family.rejected.any() for family in rows.excess().values())


def test_a_head_and_a_request_that_are_off_are_named() -> None:
    rng = np.random.default_rng(1)
    exact = rng.standard_normal((8, 2, 64))
    std = np.full(exact.shape, 2.0**-10)
    error = std * rng.standard_normal(exact.shape)
    error[3, 1] *= 20
    excess = rows_of(error, std, exact).excess()
    named = {
        family: [p for p, bad in zip(found.places, found.rejected, strict=True) if bad]
        for family, found in excess.items()
    }
    assert named["token"] == ["token 0 of request 1"]
    assert (named["request"], named["head"]) == (["request 1"], ["head 1"])


def test_an_output_that_is_no_number_is_rejected() -> None:
    exact = np.ones((8, 2, 16))
    error = np.zeros_like(exact)
    error[5, 0, 3] = np.nan
    rows = rows_of(error, np.full(exact.shape, 2.0**-9), exact)
    assert rows.outside().sum() == 1
    assert rows.excess()["token"].rejected.tolist() == [False] * 5 + [True] + [False] * 2


def test_exact_outputs_need_no_noise() -> None:
    exact = np.random.default_rng(2).standard_normal((8, 2, 16))
    rows = rows_of(np.zeros_like(exact), np.zeros_like(exact), exact)
    assert not rows.outside().any() and not rows.excess()["whole"].rejected.any()
