"""Too much power is put into words that name the place."""

from dataclasses import replace

import numpy as np

from testing.harness.attention.excess import check_excess
from testing.oracles.attention.rows.rows import Rows
from testing.oracles.error_model.noise import Noise
from testing.oracles.rounding import BF16, round_to


def right() -> Rows:
    rng = np.random.default_rng(0)
    exact = rng.standard_normal((6, 3, 16))
    std = np.full(exact.shape, 2.0**-9)
    got = round_to(exact + std * rng.standard_normal(exact.shape), BF16)
    noise = Noise(8 * std, std, np.zeros_like(std))
    return Rows(got, exact, noise, BF16, np.repeat([0, 1], [2, 4]))


def test_a_right_output_has_no_findings() -> None:
    checked = check_excess(right(), "output")
    assert checked.findings == []
    assert 0.999 < checked.statistics["gain"] < 1.001
    assert 0.5 < checked.statistics["power"] < 1.5


def test_a_head_that_is_off_is_named_and_its_elements_are_counted() -> None:
    rows = right()
    got = rows.got.copy()
    got[:, 1] *= 1.25
    findings = check_excess(replace(rows, got=got), "output").findings
    assert [(f.family, f.place) for f in findings] == [
        ("whole", "the whole output"),
        ("head", "head 1"),
        ("element", "all tokens; head 1"),
    ]


def test_a_nan_is_named() -> None:
    rows = right()
    got = rows.got.copy()
    got[3, 2, 5] = np.nan
    (finding,) = check_excess(replace(rows, got=got), "output").findings
    assert finding.message.startswith(
        "1 of 288 elements are not finite, in token 1 of request 1; head 2. The worst is nan"
    )
