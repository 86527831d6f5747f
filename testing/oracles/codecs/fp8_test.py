"""fp8 quantisers: scales and codes by hand, shapes, what is not finite, and the near-tie window."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e4m3, fp8
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16
from testing.oracles.codecs.kernels import fp8_quotients
from testing.oracles.codecs.quantised import Quantised


def bf16_rows(seed: int, m: int = 64, k: int = 1024) -> Float64:
    """Normal data rounded to bf16: amax and elements have eight bits, so exact ties are common."""
    values = np.random.default_rng(seed).standard_normal((m, k))
    significand, exponent = np.frexp(values)
    return np.ldexp(np.rint(significand * 256) / 256, exponent)


def test_a_token_by_hand() -> None:
    # amax 448: scale 1. 17 and 19 are ties between 16, 18 and 20.
    codes, scale = fp8.quantise_tokens(np.array([[448.0, 17.0, 19.0, -1.0625, 0.0]]))
    assert scale.tolist() == [[1.0]]
    assert scale.dtype == np.float32
    assert e4m3.decode(codes).tolist() == [[448.0, 16.0, 20.0, -1.0, 0.0]]


def test_the_scale_is_amax_over_448_in_float32() -> None:
    codes, scale = fp8.quantise_tokens(np.array([[1.0, -3.0], [0.25, 0.125]]))
    # 3/448 = 0.00669642857… and 0.25/448 = 0.00055803571…, which 24 bits do not hold.
    assert scale.tolist() == [[0.0066964286379516125], [0.0005580357392318547]]
    assert e4m3.decode(codes).tolist() == [[144.0, -448.0], [448.0, 224.0]]


def test_a_weight_has_one_scale_a_tensor_a_channel_or_a_tile() -> None:
    w = np.array([[448.0, 1.0, 7.0], [224.0, 3.0, 0.0], [0.5, 0.0, -896.0]])
    codes, scale = fp8.quantise_weight_tensor(w)
    assert (scale.shape, scale.tolist()) == ((), 2.0)
    assert fp8.dequantise_tensor(codes, scale)[0].tolist() == [448.0, 1.0, 7.0]
    assert fp8.quantise_weight_channel(w)[1].tolist() == [[1.0], [0.5], [2.0]]
    codes, scale = fp8.quantise_weight_block(w, (2, 2))
    assert scale.tolist() == [[1.0, np.float32(7 / 448)], [np.float32(0.5 / 448), 2.0]]
    assert fp8.dequantise_block(codes, scale, (2, 2))[2, 2] == -896.0


def test_the_last_group_and_the_edge_tiles_may_be_partial() -> None:
    x = np.concatenate([np.full(128, 448.0), np.full(128, 896.0), np.full(16, 224.0)])[None]
    codes, scale = fp8.quantise_groups(x)
    assert scale.tolist() == [[1.0, 2.0, 0.5]]
    assert (codes == 0x7E).all()
    w = bf16_rows(1, 130, 272)
    codes, scale = fp8.quantise_weight_block(w)
    assert scale.shape == (2, 3)
    relative = np.abs(fp8.dequantise_block(codes, scale) - w) / np.abs(w).max()
    assert relative.max() <= 16 / 448


@pytest.mark.parametrize("power", [-20, -3, 0, 5])
def test_every_code_survives_a_power_of_two_scale(power: int) -> None:
    codes: Codes = np.delete(np.arange(255, dtype=np.uint8), 0x7F)
    x = np.ldexp(e4m3.decode(codes), power)[None]
    got, scale = fp8.quantise_tokens(x)
    assert scale.tolist() == [[2.0**power]]
    np.testing.assert_array_equal(got[0], codes)
    np.testing.assert_array_equal(fp8.dequantise_channel(got, scale), x)


@pytest.mark.parametrize("scale", [1.0, 0.0371, 2.0**-30])
def test_every_bf16_input_gets_the_nearest_value(scale: float) -> None:
    scale = float(np.float32(scale))
    x = finite_bf16()[None]
    got = fp8.dequantise_tensor(fp8.quantise_tensor(x, scale), scale)
    clipped = np.clip(x, -448 * scale, 448 * scale)
    every = e4m3.GRID.magnitudes * scale
    place = np.clip(np.searchsorted(every, np.abs(clipped)), 1, len(every) - 1)
    nearest = np.minimum(np.abs(clipped) - every[place - 1], every[place] - np.abs(clipped))
    np.testing.assert_allclose(np.abs(clipped - got), nearest, rtol=1e-9, atol=1e-300)


def test_zeros_have_scale_zero_and_codes_zero() -> None:
    codes, scale = fp8.quantise_groups(np.array([[0.0] * 128 + [1.0] * 128]))
    assert scale[0, 0] == 0
    assert (codes[0, :128] == 0).all()
    assert (fp8.quantise_groups_detail(np.zeros((1, 128))).step == 0).all()


def test_a_scale_is_no_smaller_than_the_smallest_normal_float32() -> None:
    codes, scale = fp8.quantise_tokens(np.array([[448.0, -16.0]]) * 2.0**-127)
    assert scale.tolist() == [[2.0**-126]]
    assert e4m3.decode(codes).tolist() == [[224.0, -8.0]]


def test_what_is_not_finite_stays_in_its_row_or_group() -> None:
    x = bf16_rows(2, 4, 256)
    x[1, 3], x[2, 200] = np.nan, -np.inf
    rows = np.isnan(fp8.quantise_tokens_detail(x).values)
    assert rows.sum(axis=1).tolist() == [0, 256, 256, 0]
    groups = fp8.quantise_groups_detail(x)
    assert np.isnan(groups.values).sum(axis=1).tolist() == [0, 128, 128, 0]
    assert np.isfinite(groups.step).all()
    assert not groups.near_tie[np.isnan(groups.values)].any()
    # A static scale sees no amax: the element alone.
    assert np.isnan(fp8.quantise_tensor_detail(x, 0.01).values).sum() == 2


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_static_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="wanted a positive finite number"):
        fp8.quantise_tensor(np.ones((1, 4)), scale)


def test_scales_of_another_shape_are_refused() -> None:
    codes: Codes = np.zeros((128, 256), np.uint8)
    with pytest.raises(ValueError, match=r"wanted \(1, 2\)"):
        fp8.dequantise_block(codes, np.ones((2, 1), np.float32))
    with pytest.raises(ValueError, match=r"wanted \(128, 1\)"):
        fp8.dequantise_channel(codes, np.ones((1, 128), np.float32))


def test_detail_is_what_the_codes_decode_to() -> None:
    x = bf16_rows(3, 8, 272)
    codes, scale = fp8.quantise_groups(x)
    detail = fp8.quantise_groups_detail(x)
    np.testing.assert_array_equal(fp8.dequantise_groups(codes, scale), detail.values)
    assert (np.abs(detail.values - x) <= detail.step / 2 * (1 + 1e-6)).all()
    assert not detail.scale_near_tie.any()
    assert detail.other is None


def test_float32_kernels_differ_on_near_ties_only_and_by_one_step() -> None:
    x = bf16_rows(4)
    detail: Quantised = fp8.quantise_tokens_detail(x)
    scale = fp8.quantise_tokens(x)[1].astype(np.float64)
    amax = np.abs(x).max(axis=1, keepdims=True).astype(np.float32)
    seen = np.zeros(x.shape, np.bool_)
    for quotient in fp8_quotients(x.astype(np.float32), amax):
        got = e4m3.decode(e4m3.encode(quotient)) * scale
        differs = got != detail.values
        assert not (differs & ~detail.near_tie).any()
        assert (np.abs(got - detail.values) <= detail.step).all()
        seen |= differs
    # Nearly all of what the window names are exact ties; half of them come out otherwise.
    assert seen.sum() > detail.near_tie.sum() / 2
    assert detail.near_tie.mean() < 0.02
