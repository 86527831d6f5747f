"""An fp8 cache by hand."""

import numpy as np

from testing.oracles.attention import cached
from testing.oracles.codecs import e4m3
from testing.oracles.rounding import BF16, round_to


def test_codes_under_a_scale() -> None:
    x = np.array([0.5, -1.0, 448 * 0.25, 1000.0, 0.25 * 1.0625, 0.25 * 1.1875])
    codes = cached.encode(x, 0.25)
    # 1.0625 and 1.1875 lie halfway between codes: the even one is taken.
    assert cached.decode(codes, 0.25).tolist() == [0.5, -1.0, 112.0, 112.0, 0.25, 0.3125]


def test_a_scale_is_what_float32_holds() -> None:
    assert cached.decode(np.array([0x38], np.uint8), 0.1).item() == float(np.float32(0.1))


def test_the_nan_code_is_nan() -> None:
    assert np.isnan(cached.decode(np.array([e4m3.NAN, 0xFF], np.uint8), 2.0)).all()


def test_settled_values_leave_no_doubt_and_stay_near() -> None:
    rng = np.random.default_rng(2)
    x = round_to(rng.standard_normal(100_000), BF16)
    scale = 0.0371
    assert cached.near_ties(np.append(x, 1.0625 * float(np.float32(scale))), scale).any()
    near = cached.settled(x, scale, BF16)
    assert not cached.near_ties(near, scale).any()
    np.testing.assert_allclose(near, x, rtol=0.02)
