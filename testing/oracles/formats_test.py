"""Each format's generator keeps the promises that the probes rest on."""

import math

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.error_model.product import Product
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.probes import natural, one_hot, wide_range
from testing.oracles.rounding import BF16, FP16, FP32, FloatType, round_to
from testing.oracles.unquantised_formats import Unquantised

INT8 = [Int8Channel(), Int8Block()]
ALL = [*INT8, Unquantised(), Unquantised("float16")]
SHAPES = [(5, 160), (7, 336), (3, 1040), (2, 16), (64, 512)]


def by_name(fmt: LinearFormat) -> str:
    return fmt.name


def rule_of(fmt: LinearFormat) -> ActivationRule:
    return fmt.activations({"": fmt.random_weight(np.random.default_rng(4), 8, 128, 1.0)})


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_lossless_activations_are_exact(fmt: LinearFormat, m: int, k: int) -> None:
    x = rule_of(fmt).lossless(np.random.default_rng(5), m, k)
    assert x.shape == (m, k)
    for narrow in (ml_dtypes.bfloat16, np.float16):
        np.testing.assert_array_equal(x.astype(narrow).astype(np.float64), x)
    np.testing.assert_array_equal(rule_of(fmt).encode(x).values, x)


@pytest.mark.parametrize("fmt", INT8, ids=by_name)
def test_lossless_scales_are_powers_of_two_that_differ(fmt: LinearFormat) -> None:
    x = rule_of(fmt).lossless(np.random.default_rng(6), 32, 512)
    steps = np.unique(rule_of(fmt).encode(x).step)
    assert steps.tolist() == [2.0**-8, 2.0**-7, 2.0**-6]


@pytest.mark.parametrize("fmt", INT8, ids=by_name)
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_ties_have_one_answer_in_every_arithmetic(fmt: LinearFormat, m: int, k: int) -> None:
    f = np.float32
    x = rule_of(fmt).ties(np.random.default_rng(14), m, k)
    assert x is not None
    for narrow in (ml_dtypes.bfloat16, np.float16):
        np.testing.assert_array_equal(x.astype(narrow).astype(np.float64), x)
    want = rule_of(fmt).encode(x)
    codes = want.values / want.step
    amax = (want.step * 127).astype(f)
    for quotient in (
        x.astype(f) / (amax / f(127)),
        x.astype(f) / (amax * f(1 / 127)),
        x.astype(f) * (f(127) / amax),
    ):
        np.testing.assert_array_equal(np.rint(quotient), codes)
    tied = np.abs(x / want.step) % 1 == 0.5
    assert (tied | (np.abs(codes) == 127)).all()
    assert tied.sum() >= x.size - 2 * m * (1 + k // 128)
    assert (codes[tied] % 2 == 0).all()


@pytest.mark.parametrize("fmt", INT8, ids=by_name)
def test_random_weights_hold_every_code(fmt: LinearFormat) -> None:
    weight = fmt.random_weight(np.random.default_rng(15), 64, 256, 1.0)["weight"]
    assert np.unique(weight).tolist() == list(range(-128, 128))


@pytest.mark.parametrize("kind", [BF16, FP16, FP32], ids=lambda kind: kind.name)
def test_rows_of_a_wide_range(kind: FloatType) -> None:
    x = wide_range(np.random.default_rng(16), 512, kind)
    np.testing.assert_array_equal(round_to(x, kind), x)
    largest = np.abs(x).max(axis=1)
    assert (np.diff(largest) > 0).all()
    # Below 2^-126 · 127 the scale's floor counts, and in fp16 2^-14 is the smallest normal value.
    floor, top = (2.0**-14, 2.0**13) if kind == FP16 else (127 * 2.0**-126, 2.0**14)
    assert 0 < largest[0] < floor
    assert largest[-1] > top


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_one_is_a_code_of_every_format(fmt: LinearFormat) -> None:
    values = rule_of(fmt).encode(one_hot(160)).values
    np.testing.assert_allclose(values, np.eye(160), rtol=2.0**-24, atol=0)


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_identity_weight(fmt: LinearFormat) -> None:
    np.testing.assert_array_equal(fmt.decode(fmt.identity_weight(160)), np.eye(160))


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_snap_undoes_a_rounding_to_bf16(fmt: LinearFormat) -> None:
    want = rule_of(fmt).encode(natural(np.random.default_rng(13), 50, 336))
    got = rule_of(fmt).snap(round_to(want.values, BF16), want)
    np.testing.assert_allclose(got, want.values, rtol=1e-12)


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_gain_scales_the_weight(fmt: LinearFormat) -> None:
    weights = [
        fmt.decode(fmt.random_weight(np.random.default_rng(7), 130, 200, gain)) for gain in (1, 2)
    ]
    np.testing.assert_array_equal(weights[1], 2 * weights[0])


def test_block_scales_differ_in_every_tile() -> None:
    tensors = Int8Block().random_weight(np.random.default_rng(8), 300, 1040, 1.0)
    assert tensors["weight_scale_inv"].shape == (3, 9)
    assert len(np.unique(tensors["weight_scale_inv"])) == 27


@pytest.mark.parametrize("k", [1024, 4096, 16384])
def test_unquantised_sums_are_exact_in_any_order(k: int) -> None:
    fmt, rng = Unquantised(), np.random.default_rng(9)
    x = rule_of(fmt).lossless(rng, 4, k)
    w = fmt.decode(fmt.random_weight(rng, 8, k, 1.0))
    forwards = np.cumsum((x[:, None] * w[None]).astype(np.float32), axis=2, dtype=np.float32)
    np.testing.assert_array_equal(forwards[..., -1].astype(np.float64), x @ w.T)


@pytest.mark.parametrize("fmt", INT8, ids=by_name)
@pytest.mark.parametrize("k", [48, 160, 1040])
@pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
def test_predicted_activation_noise(fmt: LinearFormat, k: int, kind: FloatType) -> None:
    x = natural(np.random.default_rng(10), 400, k, kind)
    noise = np.sqrt(np.mean((rule_of(fmt).encode(x).values - x) ** 2) / np.mean(x**2))
    assert noise / rule_of(fmt).relative_noise(x) == pytest.approx(1, abs=0.02)


def test_activation_noise_of_normal_data_is_below_a_hundredth() -> None:
    x = np.random.default_rng(11).standard_normal((200, 1024))
    # E max² of 1024 half-normal values, by P(|z| < t) = erf(t/√2): ∫ 2t·(1 - P^1024) dt.
    t = np.linspace(0, 8, 8001)
    below = np.array([math.erf(v / math.sqrt(2)) for v in t]) ** 1024
    rms_max = math.sqrt(float(np.sum(2 * t * (1 - below)) * (t[1] - t[0])))
    want = rms_max / (127 * math.sqrt(12))
    assert 0.0075 < want < 0.008
    assert rule_of(Int8Channel()).relative_noise(x) == pytest.approx(want, rel=0.02)


@pytest.mark.parametrize("fmt", INT8, ids=by_name)
def test_noise_model_has_the_shape_of_the_output(fmt: LinearFormat) -> None:
    noise = fmt.noise(Product(np.ones((3, 300)), np.ones((5, 300)), np.ones(5)))
    assert noise.bound.shape == noise.std.shape == noise.systematic.shape == (3, 5)
    assert (noise.systematic <= noise.bound).all()
