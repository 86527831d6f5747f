"""int8 encoders and decoders against values worked by hand, and exhaustively over every code."""

import numpy as np
import pytest

from testing.oracles import int8
from testing.oracles.arrays import Int8

ALL_CODES: Int8 = np.arange(-127, 128, dtype=np.int8)


@pytest.mark.parametrize(
    ("quotient", "code"),
    [
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (-1.5, -2),
        (125.5, 126),
        (126.5, 126),
        (126.6, 127),
        (126.49, 126),
        (0.49, 0),
        (0.51, 1),
        (-126.6, -127),
    ],
)
def test_half_goes_to_even(quotient: float, code: int) -> None:
    x = np.array([[127.0, quotient]])
    codes, scale = int8.encode_tokens(x)
    assert scale == np.float32(1.0)
    assert codes.tolist() == [[127, code]]


def test_minus_128_is_clamped() -> None:
    assert int8.codes_of(np.array([-128.0, -1e9, 1e9]), np.array(1.0)).tolist() == [-127, -127, 127]


def test_scale_is_amax_over_127_in_float32() -> None:
    codes, scale = int8.encode_channel(np.array([[1.0, -3.0], [0.25, 0.125]]))
    assert scale.dtype == np.float32
    # 3/127 and 0.25/127, rounded to 24 bits.
    assert scale.tolist() == [[0.023622047156095505], [0.0019685039296746254]]
    # 1/3·127 = 42.33 and 127/2 = 63.5, a tie in exact arithmetic that the scale's rounding breaks.
    assert codes[0].tolist() == [42, -127]
    assert codes[1, 0] == 127


@pytest.mark.parametrize("power", [-20, -3, 0, 5])
def test_every_code_survives_a_power_of_two_scale(power: int) -> None:
    x = np.ldexp(ALL_CODES.astype(np.float64), power)[None]
    codes, scale = int8.encode_tokens(x)
    assert scale[0, 0] == 2.0**power
    np.testing.assert_array_equal(codes[0], ALL_CODES)
    np.testing.assert_array_equal(int8.decode_channel(codes, scale), x)


def test_every_code_decodes_to_code_times_scale() -> None:
    scale = np.array([[0.5], [3.0]], np.float32)
    got = int8.decode_channel(np.stack([ALL_CODES, ALL_CODES]), scale)
    assert got[0].tolist() == [c / 2 for c in range(-127, 128)]
    assert got[1].tolist() == [c * 3 for c in range(-127, 128)]


def test_zero_rows_have_scale_zero_and_codes_zero() -> None:
    codes, scale = int8.encode_tokens(np.array([[0.0, 0.0], [1.0, -1.0]]))
    assert codes.tolist() == [[0, 0], [127, -127]]
    assert scale[0] == 0
    assert np.isfinite(int8.decode_channel(codes, scale)).all()


def test_a_scale_is_no_smaller_than_the_smallest_normal_float32() -> None:
    # amax/127 = 2^-127: the scale is 2^-126, and the codes are half as large.
    codes, scale = int8.encode_tokens(np.array([[127.0, 3.0, -5.0]]) * 2.0**-127)
    assert scale.tolist() == [[2.0**-126]]
    assert scale.dtype == np.float32
    assert codes.tolist() == [[64, 2, -2]]


def test_ragged_blocks_by_hand() -> None:
    w = np.array([[1.0, 2.0, 127.0], [4.0, 3.0, 0.0], [254.0, 0.0, 0.0]])
    codes, scale = int8.encode_block(w, (2, 2))
    assert scale.tolist() == [[np.float32(4 / 127), 1.0], [2.0, 0.0]]
    assert codes.tolist() == [[32, 64, 127], [127, 95, 0], [127, 0, 0]]
    # 32·fp32(4/127) = 1.00787401…
    assert int8.decode_block(codes, scale, (2, 2))[0, 0] == pytest.approx(32 * 4 / 127, rel=1e-7)


def test_token_groups_have_a_scale_each() -> None:
    x = np.concatenate([np.full(128, 127.0), np.full(128, 254.0), np.full(16, 63.5)])[None]
    codes, scale = int8.encode_token_groups(x)
    assert scale.tolist() == [[1.0, 2.0, 0.5]]
    assert (codes == 127).all()


def test_spread_blocks_by_hand() -> None:
    scale = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    assert int8.spread_blocks(scale, (3, 3), (2, 2)).tolist() == [[1, 1, 2], [1, 1, 2], [3, 3, 4]]


def test_a_transposed_block_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"wanted \(1, 2\)"):
        int8.decode_block(np.zeros((128, 256), np.int8), np.ones((2, 1), np.float32))


def test_near_ties_mark_what_fp32_may_round_either_way() -> None:
    x = np.array([10.5, 10.5 * (1 + 2**-24), 10.501, 10.0])
    assert int8.near_ties(x, np.array(1.0)).tolist() == [True, True, False, False]


def test_rounding_error_is_at_most_half_a_step() -> None:
    x = np.random.default_rng(2).standard_normal((50, 300))
    codes, scale = int8.encode_tokens(x)
    error = np.abs(int8.decode_channel(codes, scale) - x)
    assert (error <= scale * 0.5 * (1 + 1e-6)).all()
