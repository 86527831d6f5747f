"""Rounding against hand-worked values, ml_dtypes and numpy, which define these types."""

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.rounding import BF16, FP16, FP32, round_to, ulp


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1.0, 1.0),
        (1 + 2**-8, 1.0),
        (1 + 3 * 2**-8, 1 + 2**-6),
        (1 + 2**-8 + 2**-40, 1 + 2**-7),
        (-1 - 2**-8 - 2**-40, -1 - 2**-7),
        (2 - 2**-8, 2.0),
        (0.0, 0.0),
        (2.0**-134, 0.0),
        (3 * 2.0**-134, 2.0**-132),
        (3.3961775292304960e38, np.inf),
        (-np.inf, -np.inf),
    ],
)
def test_bf16_by_hand(value: float, want: float) -> None:
    assert round_to(np.array(value), BF16) == want


def test_a_tie_seen_only_in_float64_is_rounded_once() -> None:
    just_above_tie = 1 + 2.0**-8 + 2.0**-50
    assert np.float64(just_above_tie).astype(ml_dtypes.bfloat16) == 1.0, "ml_dtypes rounds twice"
    assert round_to(np.array(just_above_tie), BF16) == 1 + 2.0**-7


def test_nan_stays_nan() -> None:
    assert np.isnan(round_to(np.array(np.nan), BF16))


def test_bf16_agrees_with_ml_dtypes_on_every_upper_half_of_float32() -> None:
    high = np.arange(2**16, dtype=np.uint32) << 16
    for low in (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (high | np.uint32(low)).view(np.float32)
        x = x[~np.isnan(x)]
        want = x.astype(ml_dtypes.bfloat16).astype(np.float64)
        np.testing.assert_array_equal(round_to(x.astype(np.float64), BF16), want)


def test_fp16_agrees_with_numpy_around_every_value() -> None:
    every: Float64 = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    finite = every[np.isfinite(every)]
    half = ulp(finite, FP16) / 2
    for x in (finite, finite + half, finite - half, finite + 0.9 * half):
        with np.errstate(over="ignore"):
            want = x.astype(np.float16).astype(np.float64)
        np.testing.assert_array_equal(round_to(x, FP16), want)


def test_fp32_agrees_with_numpy() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(100_000) * np.exp2(rng.integers(-140, 120, 100_000))
    np.testing.assert_array_equal(round_to(x, FP32), x.astype(np.float32).astype(np.float64))


@pytest.mark.parametrize(
    ("value", "want"), [(1.0, 2**-7), (1.99, 2**-7), (2.0, 2**-6), (0.0, 2.0**-133), (-0.75, 2**-8)]
)
def test_ulp_by_hand(value: float, want: float) -> None:
    assert ulp(np.array(value), BF16) == want
