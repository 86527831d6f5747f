"""E8M0 and its three rules: by hand at every boundary, and exhaustively over all bf16 and fp16."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e8m0
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16, finite_fp16

ALL: Codes = np.arange(256, dtype=np.uint8)
INPUTS = np.abs(np.concatenate([finite_bf16(), finite_fp16()]))


def scale(codes: Codes) -> list[float]:
    return [float(value) for value in e8m0.decode(codes)]


def test_decoding_is_ml_dtypes() -> None:
    np.testing.assert_array_equal(
        e8m0.decode(ALL), ALL.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    )
    assert scale(ALL[[0, 127, 254]]) == [2.0**-127, 1.0, 2.0**127]
    assert np.isnan(e8m0.decode(ALL[255:]))


def test_floor_by_hand() -> None:
    amax = np.array([1.0, 1.99, 2.0, 6.0, 7.99, 8.0])
    assert scale(e8m0.floor_scale(amax, 2)) == [0.25, 0.25, 0.5, 1, 1, 2]
    assert scale(e8m0.floor_scale(np.array([448.0, 511.0, 512.0]), 8)) == [1, 1, 2]


def test_ceil_by_hand() -> None:
    amax = np.array([448.0, np.nextafter(448.0, np.inf), 449.0, 224.0, 225.0, 896.0, 897.0])
    assert scale(e8m0.ceil_scale(amax, 448.0)) == [1, 2, 2, 0.5, 1, 2, 4]
    assert scale(e8m0.ceil_scale(np.array([6.0, 6.5, 3.0, 3.25]), 6.0)) == [1, 2, 0.5, 1]


def test_even_by_hand() -> None:
    # Two significand bits round 1.75 up to 2, four round 1.9375 up.
    amax = np.array([7.0, np.nextafter(7.0, 0), 3.5, 4.0])
    assert scale(e8m0.even_scale(amax, 2, 1)) == [2, 1, 1, 1]
    amax = np.array([496.0, np.nextafter(496.0, 0), 256.0])
    assert scale(e8m0.even_scale(amax, 8, 3)) == [2, 1, 1]


def test_zero_and_what_is_beyond_either_end() -> None:
    amax = np.array([0.0, 2.0**-149, 2.0**127, np.inf, np.nan])
    for codes in (
        e8m0.floor_scale(amax, 8),
        e8m0.ceil_scale(amax, 448.0),
        e8m0.even_scale(amax, 8, 3),
    ):
        assert codes[[0, 1]].tolist() == [0, 0]
        assert codes[[3, 4]].tolist() == [255, 255]
    assert e8m0.floor_scale(np.array([2.0**127, 1e308]), 0).tolist() == [254, 254]


@pytest.mark.parametrize(("maximum", "emax", "bits"), [(448.0, 8, 3), (6.0, 2, 1)])
def test_every_input_by_the_rules_themselves(maximum: float, emax: int, bits: int) -> None:
    amax = INPUTS[(INPUTS > 2.0**-110) & (INPUTS < 2.0**120)]
    floor = e8m0.decode(e8m0.floor_scale(amax, emax))
    assert ((floor * 2.0**emax <= amax) & (amax < floor * 2.0 ** (emax + 1))).all()
    ceil = e8m0.decode(e8m0.ceil_scale(amax, maximum))
    assert ((amax <= maximum * ceil) & (amax > maximum * ceil / 2)).all()
    even = e8m0.decode(e8m0.even_scale(amax, emax, bits))
    carries = amax / floor >= 2.0**emax * (2 - 2.0 ** -(bits + 1))
    np.testing.assert_array_equal(even, np.where(carries, 2 * floor, floor))
    assert carries.any()
    assert (~carries).any()


def test_the_ceiling_needs_no_luck_with_quotients() -> None:
    # float64 neighbours of maximum·2^e, compared in exact arithmetic.
    rng = np.random.default_rng(2)
    edges: Float64 = 448.0 * 2.0 ** rng.integers(-100, 100, 200)
    amax = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])
    for value, code in zip(amax, e8m0.ceil_scale(amax, 448.0), strict=True):
        exponent = int(code) - 127
        assert Fraction(value) <= 448 * Fraction(2) ** exponent
        assert Fraction(value) > 448 * Fraction(2) ** (exponent - 1)


def test_a_power_of_two_as_maximum_is_the_ceiling_of_the_exponent() -> None:
    amax = np.array([256.0, 257.0, 511.0, 512.0])
    assert scale(e8m0.ceil_scale(amax, 256.0)) == [1, 2, 2, 2]
