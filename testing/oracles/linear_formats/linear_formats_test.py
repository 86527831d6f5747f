"""Each floating-point format's generator keeps the promises that the probes rest on."""

import ml_dtypes
import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.linear_formats.fp8 import Fp8Block, Fp8Channel, Fp8Tensor
from testing.oracles.linear_formats.mx import Mxfp4, Mxfp8
from testing.oracles.linear_formats.nvfp4 import Nvfp4
from testing.oracles.probes import natural
from testing.oracles.rounding import BF16, FP16, FloatType, round_to

DYNAMIC: list[LinearFormat] = [Fp8Tensor(), Fp8Channel(), Fp8Block(), Mxfp8(), Mxfp4(dynamic=True)]
STATIC: list[LinearFormat] = [Fp8Tensor(static=True), Nvfp4()]
EXACT: list[LinearFormat] = [Fp8Tensor(static=True, exact_scale=True), Nvfp4(exact_scale=True)]
WEIGHT_ONLY: list[LinearFormat] = [Nvfp4(weight_only=True), Mxfp4()]
QUANTISED = [*DYNAMIC, *STATIC, *EXACT]
ALL = [*QUANTISED, *WEIGHT_ONLY]
# The narrowest K that every format takes has one MX block.
SHAPES = [(5, 160), (7, 352), (3, 1056), (2, 32)]


def by_name(fmt: LinearFormat) -> str:
    exact = "_exact" if any(fmt is other for other in EXACT) else ""
    return fmt.name + exact


def rule_of(fmt: LinearFormat, seed: int = 4) -> ActivationRule:
    rng = np.random.default_rng(seed)
    shards = {"gate": fmt.random_weight(rng, 8, 32, 1.0), "up": fmt.random_weight(rng, 8, 32, 2.5)}
    return fmt.activations(shards)


def assert_narrow(x: Float64) -> None:
    for narrow in (ml_dtypes.bfloat16, np.float16):
        np.testing.assert_array_equal(x.astype(narrow).astype(np.float64), x)


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_lossless_activations_are_the_middle_of_a_code(fmt: LinearFormat, m: int, k: int) -> None:
    rule = rule_of(fmt)
    x = rule.lossless(np.random.default_rng(5), m, k)
    assert x.shape == (m, k)
    assert_narrow(x)
    want = rule.encode(x)
    assert not want.near_tie.any()
    if fmt in STATIC:
        assert (np.abs(want.values - x) <= 0.05 * want.step).all()
        assert not np.array_equal(want.values, x)
    else:
        np.testing.assert_array_equal(want.values, x)


@pytest.mark.parametrize("fmt", [f for f in QUANTISED if f not in STATIC], ids=by_name)
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_ties_are_exact_and_go_to_the_even_code(fmt: LinearFormat, m: int, k: int) -> None:
    rule = rule_of(fmt)
    x = rule.ties(np.random.default_rng(14), m, k)
    assert x is not None
    assert_narrow(x)
    want = rule.encode(x)
    tied = np.abs(want.values - x) * 2 == want.step
    assert tied.mean() > 0.7
    assert (tied | (want.values == x)).all()


@pytest.mark.parametrize("fmt", [*STATIC, *WEIGHT_ONLY], ids=by_name)
def test_no_ties_where_arithmetics_would_differ(fmt: LinearFormat) -> None:
    assert rule_of(fmt).ties(np.random.default_rng(14), 4, 64) is None


@pytest.mark.parametrize("fmt", STATIC, ids=by_name)
def test_the_largest_input_scale_counts(fmt: LinearFormat) -> None:
    rng = np.random.default_rng(3)
    shards = {
        name: fmt.random_weight(rng, 8, 32, g) for name, g in (("q", 1), ("k", 2.5), ("v", 2))
    }
    together, alone = fmt.activations(shards), fmt.activations({"k": shards["k"]})
    x = natural(rng, 8, 64)
    np.testing.assert_array_equal(together.encode(x).values, alone.encode(x).values)
    scales = [float(tensors["input_scale"]) for tensors in shards.values()]
    assert max(scales) / min(scales) > 2.14


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_one_hot_reads_a_code_that_is_beyond_doubt(fmt: LinearFormat) -> None:
    rule = rule_of(fmt)
    x = rule.one_hot(160)
    assert_narrow(x)
    values = rule.encode(x).values
    assert np.count_nonzero(values) == 160
    np.testing.assert_allclose(values, x, rtol=2.0**-8)


@pytest.mark.parametrize(
    ("fmt", "scales"),
    [
        # 500 among the first 32 values, 7.5 among the fourth 32, 1 at the end of 256.
        (Fp8Channel(), [500 / 448] * 8),
        (Fp8Tensor(), [500 / 448] * 8),
        (Fp8Block(), [500 / 448] * 4 + [1 / 448] * 4),
        (Mxfp8(), [2.0, 0, 0, 2.0**-5, 0, 0, 0, 2.0**-8]),
        (Mxfp4(dynamic=True), [64.0, 0, 0, 1.0, 0, 0, 0, 2.0**-2]),
    ],
    ids=lambda v: v.name if isinstance(v, LinearFormat) else "",
)
def test_the_declared_scales_by_hand(fmt: LinearFormat, scales: list[float]) -> None:
    x = np.zeros((1, 256))
    x[0, [3, 100, 255]] = [500.0, -7.5, 1.0]
    values = rule_of(fmt).encode(x).values
    unit: Float64 = np.repeat(np.array(scales, np.float32).astype(float), 32)
    codes = np.divide(x[0], unit, out=np.zeros(256), where=unit > 0)
    encode, decode = (e2m1.encode, e2m1.decode) if "fp4" in fmt.name else (e4m3.encode, e4m3.decode)
    np.testing.assert_array_equal(values[0], decode(encode(codes)) * unit)


def test_block_scales_of_nvfp4_hold_what_calibration_never_gives() -> None:
    scales = Nvfp4().random_weight(np.random.default_rng(16), 256, 1024, 1.0)["weight_scale"]
    values = scales.astype(float)
    assert 0 < (values < 32).mean() < 0.01
    assert (values < 2.0**-6).any()


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_identity_weight(fmt: LinearFormat) -> None:
    np.testing.assert_array_equal(fmt.decode(fmt.identity_weight(160)), np.eye(160))


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_weights_hold_every_byte_and_outputs_fit_fp16(fmt: LinearFormat) -> None:
    tensors = fmt.random_weight(np.random.default_rng(15), 128, 512, 2.5)
    seen = np.unique(tensors["weight"].view(np.uint8))
    wanted = set(range(256)) - ({0x7F, 0xFF} if tensors["weight"].dtype != np.uint8 else set())
    assert set(seen.tolist()) == wanted
    weight = fmt.decode(tensors)
    assert weight.shape == (128, 512)
    assert 1e-3 < np.abs(weight).max() < 1


@pytest.mark.parametrize("fmt", ALL, ids=by_name)
def test_gain_scales_the_weight(fmt: LinearFormat) -> None:
    one, two = (
        fmt.decode(fmt.random_weight(np.random.default_rng(7), 130, 192, gain)) for gain in (1, 2)
    )
    np.testing.assert_array_equal(two, 2 * one)


@pytest.mark.parametrize("fmt", QUANTISED, ids=by_name)
def test_snap_undoes_a_rounding_to_bf16(fmt: LinearFormat) -> None:
    rule = rule_of(fmt)
    want = rule.encode(natural(np.random.default_rng(13), 50, 352))
    np.testing.assert_array_equal(rule.snap(round_to(want.values, BF16), want), want.values)


@pytest.mark.parametrize("fmt", QUANTISED, ids=by_name)
@pytest.mark.parametrize("k", [64, 352, 1056])
@pytest.mark.parametrize("kind", [BF16, FP16], ids=["bf16", "fp16"])
def test_predicted_activation_noise(fmt: LinearFormat, k: int, kind: FloatType) -> None:
    rule = fmt.activations({"": fmt.identity_weight(k)})
    x = natural(np.random.default_rng(10), 100, k, kind)
    want = rule.encode(x)
    noise = np.mean((want.values - x) ** 2) / np.mean(x**2)
    # An error uniform in ±s/2 has a square of mean s²/12 and variance s⁴/180.
    deviation = np.sqrt(np.sum(want.step**4) / 180) / (np.sum(want.step**2) / 12)
    assert noise / rule.relative_noise(x) ** 2 == pytest.approx(1, abs=4 * deviation)


def test_noise_of_normal_data_is_that_of_the_format_notes() -> None:
    x = np.random.default_rng(11).standard_normal((200, 1024))
    noise = {
        fmt.name: fmt.activations({"": fmt.identity_weight(1024)}).relative_noise(x)
        for fmt in (Fp8Channel(), Mxfp4(dynamic=True), Nvfp4())
    }
    assert noise["fp8_channel"] == pytest.approx(0.0265, abs=0.002)
    assert noise["mxfp4_w4a4"] == pytest.approx(0.117, abs=0.003)
    assert noise["nvfp4_w4a4"] == pytest.approx(0.095, abs=0.003)
