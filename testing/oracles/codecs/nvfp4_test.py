"""NVFP4: blocks worked by hand, every input, what is not finite, ties of codes and of scales."""

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, nvfp4
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16
from testing.oracles.codecs.kernels import ULPS, nvfp4_block_scale, nvfp4_quotient, reciprocal
from testing.oracles.codecs.quantised import WINDOW


def bf16_rows(seed: int, m: int = 64, k: int = 1024) -> Float64:
    """Normal data rounded to bf16, rows of different sizes."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((m, k)) * 2.0 ** rng.uniform(-6, 6, (m, 1))
    significand, exponent = np.frexp(values)
    return np.ldexp(np.rint(significand * 256) / 256, exponent)


def test_two_blocks_by_hand() -> None:
    first = [12.0, -12.0, 0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0, 0.6, -0.4, 0, 0, 0, 0, 0]
    second = [3.0, 1.0, -0.625] + [0.0] * 13
    got = nvfp4.quantise(np.array([first + second]), 1.0)
    # amax/6 = 2 and 0.5, both e4m3.
    assert e4m3.decode(got.block_scale).tolist() == [[2.0, 0.5]]
    values = nvfp4.dequantise(got)[0]
    # Quotients 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5 are ties: to 0, 1, 1, 2, 2, 4 and 4.
    assert values[:11].tolist() == [12, -12, 0, 2, 2, 4, 4, 8, 8, 1, 0]
    assert values[16:19].tolist() == [3, 1, -0.5]
    assert got.packed[0, :2].tolist() == [0xF7, 0x20]


def test_the_global_scale_divides_both() -> None:
    g = 2.0**-3
    got = nvfp4.quantise(np.array([[6.0 * g * 1.125] + [0.0] * 15]), g)
    assert e4m3.decode(got.block_scale).tolist() == [[1.125]]
    assert nvfp4.dequantise(got)[0, 0] == 6.0 * g * 1.125
    assert got.global_scale.dtype == np.float32


def test_the_global_scale_of_a_tensor_makes_its_largest_block_scale_448() -> None:
    x = bf16_rows(1)
    g = nvfp4.global_scale_of(x)
    assert (g.shape, g.dtype) == ((), np.float32)
    assert float(g) == np.float32(np.abs(x).max() / 2688)
    assert e4m3.decode(nvfp4.quantise(x, g).block_scale).max() == 448
    assert float(nvfp4.global_scale_of(np.zeros((2, 16)))) == 1


def test_block_scales_saturate_and_underflow() -> None:
    x = np.zeros((1, 48))
    x[0, 0], x[0, 16], x[0, 32] = 6000.0, 6 * 2.0**-11, 6 * 2.0**-9
    got = nvfp4.quantise(x, 1.0)
    assert e4m3.decode(got.block_scale).tolist() == [[448.0, 0.0, 2.0**-9]]
    assert nvfp4.dequantise(got)[0, [0, 16, 32]].tolist() == [2688.0, 0.0, 6 * 2.0**-9]
    assert nvfp4.quantise_detail(x, 1.0).step[0, 16] == 0


def test_codes_under_a_block_scale_of_zero_are_zero_however_large_x_is() -> None:
    got = nvfp4.quantise(np.array([[5.0, -3.0] + [0.0] * 14]), 2.0**11)
    assert got.block_scale.tolist() == [[0]]
    assert np.isin(e2m1.unpack(got.packed), [0, 8]).all()


def test_every_pair_of_code_and_block_scale_survives() -> None:
    scales: Codes = np.arange(1, 0x7F, dtype=np.uint8)
    row = np.concatenate([np.arange(16), [7] * 16]).astype(np.uint8)
    codes = np.tile(row, (len(scales), 1))
    # -0 would come back as -0: its code is 8, and stays.
    x = e2m1.decode(codes) * e4m3.decode(scales)[:, None] * 0.125
    got = nvfp4.quantise(x, 0.125)
    np.testing.assert_array_equal(got.block_scale, np.stack([scales, scales], axis=1))
    np.testing.assert_array_equal(e2m1.unpack(got.packed), codes)
    np.testing.assert_array_equal(nvfp4.dequantise(got), x)
    assert not nvfp4.quantise_detail(x, 0.125).scale_near_tie.any()


def test_every_bf16_input_gets_the_nearest_value_of_its_block() -> None:
    x = np.concatenate([finite_bf16(), np.zeros(-len(finite_bf16()) % 16)]).reshape(8, -1)
    scale = float(nvfp4.global_scale_of(x))
    got = nvfp4.quantise(x, scale)
    unit = np.repeat(e4m3.decode(got.block_scale) * scale, 16, axis=1)
    candidates = e2m1.GRID.magnitudes[:, None, None] * unit
    nearest = np.abs(np.abs(x) - candidates).min(axis=0)
    np.testing.assert_allclose(np.abs(x - nvfp4.dequantise(got)), nearest, rtol=1e-9, atol=0)


def test_zeros_give_zero_bytes() -> None:
    got = nvfp4.quantise(np.zeros((2, 32)), 0.5)
    assert not got.block_scale.any()
    assert not got.packed.any()


def test_what_is_not_finite_stays_in_its_block() -> None:
    x = bf16_rows(2, 4, 64)
    x[1, 3], x[2, 40] = np.nan, -np.inf
    got = nvfp4.quantise(x, nvfp4.global_scale_of(bf16_rows(2, 4, 64)))
    assert np.isnan(nvfp4.dequantise(got)).sum(axis=1).tolist() == [0, 16, 16, 0]
    assert got.block_scale[1, 0] == 0x7F
    detail = nvfp4.quantise_detail(x, got.global_scale)
    np.testing.assert_array_equal(detail.values, nvfp4.dequantise(got))
    assert np.isfinite(detail.step).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_global_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="wanted one positive finite number"):
        nvfp4.quantise(np.ones((1, 16)), scale)


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(ValueError, match="K = 24, wanted a multiple of 16"):
        nvfp4.quantise(np.ones((1, 24)), 1.0)
    packed: Codes = np.zeros((5, 40), np.uint8)
    one = np.asarray(1, np.float32)
    with pytest.raises(ValueError, match="unswizzle first"):
        nvfp4.dequantise(nvfp4.Nvfp4(packed, np.zeros((128, 8), np.uint8), one))


def test_a_block_scale_near_a_tie_has_two_right_blocks() -> None:
    # amax/6 = 1.0625, halfway between 1 and 1.125; the tie goes to 1.
    x = np.zeros((1, 32))
    x[0, :3] = [6.375, 1.3, -3.2]
    x[0, 16] = 6.0
    detail = nvfp4.quantise_detail(x, 1.0)
    assert detail.scale_near_tie.tolist() == [[True] * 16 + [False] * 16]
    assert detail.near_tie[0, :16].all()
    assert detail.values[0, :3].tolist() == [6.0, 1.5, -3.0]
    assert detail.other is not None
    assert detail.other.values[0, :3].tolist() == [6.75, 1.125, -3.375]
    assert detail.other.values[0, 16] == detail.values[0, 16] == 6.0
    assert nvfp4.other_block_scale(x, 1.0).tolist() == [[0x39, 0x38]]
    assert nvfp4.block_scale_near_ties(x, 1.0).tolist() == [[True, False]]
    assert (np.abs(detail.other.values - detail.values) <= detail.step).all()


def test_float32_kernels_differ_on_near_ties_only() -> None:
    x = bf16_rows(4)
    # g = 7·2^n/2688, so that a block's amax/(6·g) is amax·64·2^-n, often halfway between two e4m3.
    x[0, 0] = 7 * 2.0 ** np.ceil(np.log2(np.abs(x).max()))
    g = nvfp4.global_scale_of(x)
    want = nvfp4.quantise(x, g)
    tied = nvfp4.block_scale_near_ties(x, g)
    other = nvfp4.other_block_scale(x, g)
    f = x.astype(np.float32)
    amax = np.abs(f).reshape(len(x), -1, 16).max(axis=2)
    seen_scales, seen_codes = 0, 0
    for ulps in ULPS:
        gs = reciprocal(g, ulps)
        scales = e4m3.encode(nvfp4_block_scale(amax, gs, ulps))
        differs = scales != want.block_scale
        assert not (differs & ~tied).any()
        np.testing.assert_array_equal(scales[differs], other[differs])
        wide = np.repeat(e4m3.decode(scales), 16, axis=1).astype(np.float32)
        codes = e2m1.encode(nvfp4_quotient(f, wide, gs, ulps))
        right, near = nvfp4.quantise_under(x, scales, g)
        wrong = codes != right
        assert not (wrong & ~near).any()
        assert (np.abs(codes.astype(int) - right)[wrong] == 1).all()
        seen_scales, seen_codes = seen_scales + differs.sum(), seen_codes + wrong.sum()
    assert seen_scales > 0
    assert seen_codes > 0
    assert tied.mean() < 0.1


def test_the_window_is_as_wide_as_chains_of_float32_ask_for() -> None:
    rng = np.random.default_rng(6)
    amax, x = np.exp2(rng.uniform(-6, 6, (2, 40_000))).astype(np.float32)
    wide = rng.choice(e4m3.GRID.magnitudes[8:], x.shape).astype(np.float32)
    furthest = 0.0
    for g in rng.uniform(0.001, 0.2, 20).astype(np.float32):
        for ulps in ULPS:
            gs = reciprocal(g, ulps)
            scale = nvfp4_block_scale(amax, gs, ulps) / (amax.astype(float) / (6 * float(g)))
            element = nvfp4_quotient(x, wide, gs, ulps) / (x / (wide.astype(float) * float(g)))
            furthest = max(furthest, *(float(np.abs(q - 1).max()) for q in (scale, element)))
    assert WINDOW / 2 < furthest < WINDOW
