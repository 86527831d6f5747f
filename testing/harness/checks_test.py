"""Findings say what was seen, what was wanted and where, in one line."""

import numpy as np
import pytest

from testing.harness.checks import (
    check_codes,
    check_finite,
    check_noise,
    check_product,
    check_readback,
    check_row_of_zeros,
    check_spoilt_row,
    noise_deviation,
)
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import linear_checkpoint
from testing.oracles.error_model.product import Product
from testing.oracles.int8_formats import Int8Block, Int8Rule
from testing.oracles.probes import natural, one_hot
from testing.oracles.rounding import BF16, round_to
from testing.oracles.statistics import Comparison

FORMAT = Int8Block()
RULE = Int8Rule(128)
RNG = np.random.default_rng(50)
CHECKPOINT = linear_checkpoint(RNG, FORMAT, {"gate": 256, "up": 256}, 512)
X = RULE.lossless(RNG, 16, 512)


def comparison(weight: Float64, x: Float64 = X) -> Comparison:
    product = Product(x, CHECKPOINT.weight)
    noise = FORMAT.noise(product)
    got = round_to(x @ weight.T, BF16)
    return Comparison(got, product.parts, product.exact, noise, BF16, CHECKPOINT.layout)


def test_right_output_has_no_finding_and_a_gain_of_one() -> None:
    checked = check_product(comparison(CHECKPOINT.weight), "lossless grid")
    assert checked.findings == []
    assert checked.statistics["gain"] == 1
    assert checked.statistics["outside"] == 0


def test_message_of_a_biased_tile() -> None:
    weight = CHECKPOINT.weight.copy()
    weight[384:, 384:] *= 0.99
    verdict = Verdict("int8_block column layer gate_up_proj")
    verdict.add(check_product(comparison(weight), "lossless grid").findings)
    first, second = str(verdict).splitlines()
    assert first.startswith("int8_block column layer gate_up_proj: gain 0.9")
    assert first.endswith("(want 1) in tile (1, 3) of shard 'up' [lossless grid]")
    assert "elements differ by more than the rounding allows; the worst is" in second
    assert "1 of 2 shards" in second


def test_message_of_one_wrong_cell() -> None:
    weight = CHECKPOINT.weight.copy()
    weight[300, 7] *= 2
    (finding,) = check_readback(comparison(weight, one_hot(512))).findings
    assert finding.message.startswith(
        "shard 'up': 1 of 131072 weight cells differ, within rows 44..44, k 7..7; the first reads"
    )
    assert "(row 44 of shard 'up', k 7)" in finding.message


def test_message_of_what_is_not_finite() -> None:
    got = np.zeros((4, 512))
    got[2, 300:310] = np.inf
    (finding,) = check_finite(got, CHECKPOINT.layout, "lossless grid")
    assert finding.message == (
        "10 of 2048 outputs are not finite, in 1 rows and 10 columns; the first is inf at row 2, "
        "column 44 of shard 'up'"
    )


def test_statistics_are_not_formed_of_what_is_not_finite() -> None:
    weight = CHECKPOINT.weight.copy()
    weight[0, 0] = np.nan
    for check in (check_product(comparison(weight), "x"), check_readback(comparison(weight))):
        assert [finding.family for finding in check.findings] == ["finite"]


def test_right_codes_and_their_neighbours_on_a_tie_pass() -> None:
    x = natural(np.random.default_rng(51), 64, 512)
    want = RULE.encode(x)
    assert want.near_tie.any()
    assert check_codes(round_to(want.values, BF16), x, want) == []
    assert check_codes(want.values + want.near_tie * want.step, x, want) == []


def test_message_of_a_wrong_code() -> None:
    x = natural(np.random.default_rng(52), 4, 512)
    want = RULE.encode(x)
    read = want.values.copy()
    read[1, 200] += want.step[1, 200]
    (finding,) = check_codes(read, x, want)
    assert finding.message.startswith("1 of 2048 activation codes differ from the declared rule")
    assert finding.place == "row 1, k 200"


def test_right_noise_stays_within_three_deviations_as_often_as_normal_noise() -> None:
    deviates = []
    for seed in range(1000):
        rule = Int8Rule([None, 128][seed % 2])
        x = natural(np.random.default_rng(seed), *[(3, 48), (5, 336), (1, 130)][seed % 3])
        want = rule.encode(x)
        checked = check_noise(want.values, x, want, rule)
        assert checked.findings == []
        ratio = checked.statistics["activation_noise_ratio"]
        deviates.append((ratio - 1) / noise_deviation(want))
    assert 0.9 < np.std(deviates) < 1.1
    assert np.mean(np.abs(deviates) > 3) < 0.01


def test_truncation_makes_the_noise_fourfold() -> None:
    x = natural(np.random.default_rng(53), 16, 384)
    want = RULE.encode(x)
    step = np.where(want.step == 0, 1, want.step)
    checked = check_noise(np.trunc(x / step) * step, x, want, RULE)
    assert 3.5 < checked.statistics["activation_noise_ratio"] < 4.5
    assert "truncation in place of rounding gives 4" in checked.findings[0].message


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_must_fill_its_row_and_stay_there(value: float) -> None:
    clean = np.ones((3, 4))
    right = clean.copy()
    right[1] = np.nan
    assert check_spoilt_row(clean, right, 1, value) == []
    (swallowed,) = check_spoilt_row(clean, clean, 1, value)
    assert f"x has {value} in row 1, yet 4 of 4 outputs there are not NaN" in str(swallowed)
    (spread,) = check_spoilt_row(clean, np.full((3, 4), np.nan), 1, value)
    assert f"{value} in row 1 of x changed 2 other rows, first row 0" in str(spread)


def test_infinite_outputs_do_where_nothing_was_quantised() -> None:
    clean = np.ones((3, 4))
    infinite = clean.copy()
    infinite[1] = [np.inf, -np.inf, np.nan, np.inf]
    assert check_spoilt_row(clean, infinite, 1, np.inf, must_be_nan=False) == []
    (kept,) = check_spoilt_row(clean, infinite, 1, np.inf)
    assert "yet 3 of 4 outputs there are not NaN" in str(kept)
    (finite,) = check_spoilt_row(clean, clean, 1, np.inf, must_be_nan=False)
    assert "yet 4 of 4 outputs there are finite" in str(finite)


def test_a_row_of_zeros_gives_the_bias() -> None:
    bias = np.arange(512.0)
    got = np.ones((3, 512))
    got[1] = bias
    assert check_row_of_zeros(got, 1, bias, CHECKPOINT.layout) == []
    (wrong,) = check_row_of_zeros(got, 1, None, CHECKPOINT.layout)
    assert "row 1 of x is all zeros, yet 511 of its outputs are not the bias or 0" in str(wrong)
