"""e2m1 against the table of its values, ties worked by hand, and ml_dtypes over all inputs."""

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.codecs import e2m1
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16, finite_fp16

ALL: Codes = np.arange(16, dtype=np.uint8)


def test_decoding_by_hand() -> None:
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert e2m1.decode(ALL).tolist() == positive + [-value for value in positive]
    assert np.signbit(e2m1.decode(ALL)).tolist() == [False] * 8 + [True] * 8


def test_decoding_is_ml_dtypes() -> None:
    np.testing.assert_array_equal(
        e2m1.decode(ALL), ALL.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    )


def test_every_code_survives() -> None:
    np.testing.assert_array_equal(e2m1.encode(e2m1.decode(ALL)), ALL)


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        (0.25, 0.0),
        (0.75, 1.0),
        (1.25, 1.0),
        (1.75, 2.0),
        (2.5, 2.0),
        (3.5, 4.0),
        (5.0, 4.0),
        (0.26, 0.5),
        (0.74, 0.5),
        (5.01, 6.0),
        (7.0, 6.0),
        (1e30, 6.0),
        (float("inf"), 6.0),
    ],
)
def test_half_goes_to_even_and_large_saturates(value: float, nearest: float) -> None:
    got = e2m1.decode(e2m1.encode(np.array([value, -value])))
    assert got.tolist() == [nearest, -nearest]


def test_what_underflows_keeps_its_sign_and_nan_is_six() -> None:
    values = np.array([-0.0, -0.2, 0.2, np.nan, -np.nan])
    assert e2m1.encode(values).tolist() == [8, 8, 0, 7, 7]


@pytest.mark.parametrize("values", [finite_bf16(), finite_fp16()], ids=["bf16", "fp16"])
def test_encoding_every_input_is_ml_dtypes(values: np.typing.NDArray[np.float64]) -> None:
    want = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 0x0F
    np.testing.assert_array_equal(e2m1.encode(values), want)


def test_float64_is_rounded_once() -> None:
    values = e2m1.GRID.midpoints
    assert e2m1.encode(np.nextafter(values, np.inf)).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert e2m1.encode(np.nextafter(values, 0.0)).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_spacing_by_hand() -> None:
    values = np.array([0.0, 0.3, 1.99, 2.0, -3.0, 4.0, 5.9, 6.0, 100.0])
    assert e2m1.spacing(values).tolist() == [0.5, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_the_low_nibble_holds_the_even_k() -> None:
    assert e2m1.pack(np.array([[1, 2, 15, 0]], np.uint8)).tolist() == [[0x21, 0x0F]]
    assert e2m1.unpack(np.array([[0x21, 0x0F]], np.uint8)).tolist() == [[1, 2, 15, 0]]


def test_every_byte_survives_unpacking() -> None:
    every: Codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
    np.testing.assert_array_equal(e2m1.pack(e2m1.unpack(every)), every)


def test_an_odd_row_and_packed_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 e2m1 codes in a row"):
        e2m1.pack(np.zeros((2, 3), np.uint8))
    with pytest.raises(ValueError, match="code 33, wanted 0 to 15"):
        e2m1.decode(np.array([0x21], np.uint8))
