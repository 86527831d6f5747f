"""e4m3 against values worked by hand, and exhaustively against ml_dtypes where that defines it."""

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.codecs import e4m3
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import around, finite_bf16, finite_fp16

ALL: Codes = np.arange(256, dtype=np.uint8)
# Beyond the midpoint to the value 480 that e4m3fn does not have, ml_dtypes gives NaN.
LAST_TIE = 464.0


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (0x00, 0.0),
        (0x01, 2.0**-9),
        (0x07, 7 * 2.0**-9),
        (0x08, 2.0**-6),
        (0x38, 1.0),
        (0x3C, 1.5),
        (0x7E, 448.0),
        (0xB8, -1.0),
        (0xFE, -448.0),
    ],
)
def test_decoding_by_hand(code: int, value: float) -> None:
    assert e4m3.decode(np.array([code], np.uint8)).tolist() == [value]


def test_decoding_is_ml_dtypes() -> None:
    np.testing.assert_array_equal(
        e4m3.decode(ALL), ALL.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    )


def test_both_nans_and_both_zeros_keep_their_sign() -> None:
    values = e4m3.decode(np.array([0x7F, 0xFF, 0x00, 0x80], np.uint8))
    assert np.isnan(values[:2]).all()
    assert np.signbit(values).tolist() == [False, True, False, True]


def test_every_code_survives() -> None:
    np.testing.assert_array_equal(e4m3.encode(e4m3.decode(ALL)), ALL)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        # Ties: 1 has the even significand 1.000, 1.25 the even 1.010.
        (1.0625, 0x38),
        (1.1875, 0x3A),
        (-1.0625, 0xB8),
        # Ties of subnormals, and to zero.
        (2.0**-10, 0x00),
        (3 * 2.0**-10, 0x02),
        (-(2.0**-10), 0x80),
        # From the last subnormal to the first normal.
        (15 * 2.0**-10, 0x08),
        # A tie to 480, which does not exist, and all above it.
        (464.0, 0x7E),
        (465.0, 0x7E),
        (1e30, 0x7E),
        (-1e30, 0xFE),
        (float("inf"), 0x7E),
        (-float("inf"), 0xFE),
        (float("nan"), 0x7F),
        (-float("nan"), 0xFF),
        (-0.0, 0x80),
        (5e-324, 0x00),
    ],
)
def test_encoding_by_hand(value: float, code: int) -> None:
    assert e4m3.encode(np.array([value])).tolist() == [code]


@pytest.mark.parametrize("values", [finite_bf16(), finite_fp16()], ids=["bf16", "fp16"])
def test_encoding_every_input_is_ml_dtypes(values: np.typing.NDArray[np.float64]) -> None:
    within = np.abs(values) <= LAST_TIE
    assert within.sum() > 30_000
    want = values[within].astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    np.testing.assert_array_equal(e4m3.encode(values[within]), want)
    beyond = values[~within]
    np.testing.assert_array_equal(e4m3.encode(beyond), np.where(beyond < 0, 0xFE, 0x7E))


def test_float64_is_rounded_once() -> None:
    # A hair above a tie, which a detour through float32 or bf16 would make a tie.
    values = e4m3.GRID.midpoints
    up = e4m3.encode(np.nextafter(values, np.inf))
    down = e4m3.encode(np.nextafter(values, 0.0))
    np.testing.assert_array_equal(up, np.arange(1, 127))
    np.testing.assert_array_equal(down, np.arange(126))
    even = e4m3.encode(values)
    assert (even % 2 == 0).all()
    assert ((even == up) | (even == down)).all()


def test_no_other_code_is_nearer() -> None:
    values = np.concatenate([around(e4m3.GRID.midpoints), around(e4m3.GRID.magnitudes), [0.3, 99]])
    distance = np.abs(values[:, None] - e4m3.decode(ALL[:127])[None])
    got = np.abs(values - e4m3.decode(e4m3.encode(values)))
    np.testing.assert_array_equal(got, distance.min(axis=1))


def test_spacing_by_hand() -> None:
    values = np.array([0.0, 2.0**-9, 2.0**-6, 1.0, 1.9, 2.0, -300.0, 447.0, 448.0, 1e9])
    wanted = [2.0**-9, 2.0**-9, 2.0**-9, 0.125, 0.125, 0.25, 32, 32, 32, 32]
    assert e4m3.spacing(values).tolist() == wanted


def test_near_ties_lie_around_midpoints_only() -> None:
    window = 2.0**-20
    tie = 1.0625
    values = np.array([tie, tie * (1 + 2.0**-21), -tie * (1 - 2.0**-21), tie * (1 + 2.0**-19), 1.0])
    assert e4m3.GRID.near_tie(values, window).tolist() == [True, True, True, False, False]
    quiet = np.array([0.0, 464.0, 500.0, np.inf, np.nan])
    assert not e4m3.GRID.near_tie(quiet, window).any()
