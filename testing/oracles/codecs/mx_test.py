"""MX: blocks worked by hand under each rule, every input, what is not finite, ties of the scale."""

from typing import get_args

import numpy as np
import pytest

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, e8m0, mx
from testing.oracles.codecs.inputs import finite_bf16
from testing.oracles.codecs.kernels import ULPS, reciprocal

ELEMENTS: tuple[mx.Element, ...] = get_args(mx.Element)
RULES: tuple[mx.Rule, ...] = get_args(mx.Rule)


def block(*values: float) -> Float64:
    return np.array([[*values, *[0.0] * (32 - len(values))]])


@pytest.mark.parametrize(
    ("rule", "scale", "values"),
    [
        ("floor", 1.0, [6.0, 2.0, -4.0]),
        ("ceil", 2.0, [8.0, 2.0, -4.0]),
        ("even", 2.0, [8.0, 2.0, -4.0]),
    ],
)
def test_mxfp4_by_hand(rule: mx.Rule, scale: float, values: list[float]) -> None:
    # 7.5 saturates under floor; 2.5 and 5 are ties.
    codes, scales = mx.quantise(block(7.5, 2.5, -5.0), "e2m1", rule=rule)
    assert e8m0.decode(scales).tolist() == [[scale]]
    assert mx.dequantise(codes, scales, "e2m1")[0, :3].tolist() == values


@pytest.mark.parametrize(
    ("rule", "scale", "values"),
    [
        ("floor", 1.0, [448.0, 17 - 1.0, -480.0 + 32]),
        ("ceil", 2.0, [512.0, 16.0, -480.0]),
        ("even", 2.0, [512.0, 16.0, -480.0]),
    ],
)
def test_mxfp8_by_hand(rule: mx.Rule, scale: float, values: list[float]) -> None:
    codes, scales = mx.quantise(block(500.0, 17.0, -480.0), "e4m3", rule=rule)
    assert e8m0.decode(scales).tolist() == [[scale]]
    assert mx.dequantise(codes, scales, "e4m3")[0, :3].tolist() == values


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_every_bf16_input_gets_the_nearest_value_of_its_block(
    element: mx.Element, rule: mx.Rule
) -> None:
    x = finite_bf16().reshape(8, -1)
    codes, scales = mx.quantise(x, element, rule=rule)
    grid = e4m3.GRID if element == "e4m3" else e2m1.GRID
    unit = np.repeat(e8m0.decode(scales), 32, axis=1)
    clipped = np.minimum(np.abs(x) / unit, grid.maximum)
    place = np.clip(np.searchsorted(grid.magnitudes, clipped), 1, len(grid.magnitudes) - 1)
    nearest = np.minimum(clipped - grid.magnitudes[place - 1], grid.magnitudes[place] - clipped)
    got = np.abs(mx.dequantise(codes, scales, element)) / unit
    np.testing.assert_array_equal(np.abs(clipped - got), nearest)
    if rule == "ceil":
        # All but what lies beyond the largest scale: nothing saturates.
        assert (np.abs(x) <= grid.maximum * unit).all()


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_code_survives(element: mx.Element) -> None:
    grid = e4m3.GRID if element == "e4m3" else e2m1.GRID
    values = np.concatenate([grid.magnitudes, -grid.magnitudes])
    values = np.resize(values, (4, 64))
    values[:, ::32] = grid.maximum
    x = values * 2.0 ** np.array([[-20.0], [0.0], [3.0], [60.0]])
    for rule in RULES:
        codes, scales = mx.quantise(x, element, rule=rule)
        np.testing.assert_array_equal(mx.dequantise(codes, scales, element), x)


def test_zeros_have_the_smallest_scale() -> None:
    for rule in RULES:
        codes, scales = mx.quantise(block(), "e4m3", rule=rule)
        assert scales.tolist() == [[0]]
        assert not codes.any()


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_is_not_finite_stays_in_its_block(element: mx.Element) -> None:
    x = np.random.default_rng(3).standard_normal((4, 64))
    x[1, 3], x[2, 40] = np.nan, np.inf
    codes, scales = mx.quantise(x, element)
    assert np.isnan(mx.dequantise(codes, scales, element)).sum(axis=1).tolist() == [0, 32, 32, 0]
    detail = mx.quantise_detail(x, element)
    np.testing.assert_array_equal(detail.values, mx.dequantise(codes, scales, element))
    assert np.isfinite(detail.step).all()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="K = 48, wanted a multiple of 32"):
        mx.quantise(np.ones((1, 48)))
    with pytest.raises(ValueError, match="wanted one of 'e4m3', 'e2m1'"):
        mx.quantise(np.ones((1, 32)), "e5m2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wanted 'floor', 'ceil' or 'even'"):
        mx.quantise(np.ones((1, 32)), rule="nearest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"wanted \(1, 2\)"):
        mx.dequantise(np.zeros((1, 64), np.uint8), np.zeros((1, 4), np.uint8))


@pytest.mark.parametrize("rule", ["floor", "even"])
def test_rules_that_read_bits_have_no_near_ties(rule: mx.Rule) -> None:
    detail = mx.quantise_detail(block(256.0, 1.0625, 511.0), rule=rule)
    assert not detail.near_tie.any()


def test_a_ceiling_near_a_tie_has_two_right_blocks() -> None:
    x = np.concatenate([block(448.0, 17.0), block(449.0, 17.0)], axis=1)
    detail = mx.quantise_detail(x, rule="ceil")
    assert detail.scale_near_tie[0].tolist() == [True] * 32 + [False] * 32
    assert detail.other is not None
    assert detail.values[0, :2].tolist() == [448, 16]
    assert detail.other.values[0, :2].tolist() == [448, 16]
    above = np.nextafter(np.float32(448), np.float32(np.inf))
    tied, other = mx.other_scales(block(float(above)))
    assert (tied.tolist(), other.tolist()) == ([[True]], [[127]])


@pytest.mark.parametrize(("element", "maximum"), [("e4m3", 448.0), ("e2m1", 6.0)])
def test_a_reciprocal_moves_the_ceiling_on_near_ties_only(
    element: mx.Element, maximum: float
) -> None:
    amax = np.abs(finite_bf16())
    amax = amax[(amax > 2.0**-100) & (amax < 2.0**120)]
    x = np.zeros((len(amax), 32))
    x[:, 0] = amax
    want = mx.quantise(x, element, rule="ceil")[1][:, 0]
    tied, other = mx.other_scales(x, element)
    moved = 0
    for ulps in ULPS:
        wanted = amax.astype(np.float32) * reciprocal(np.float32(maximum), ulps)
        got = e8m0.ceil_scale(wanted.astype(np.float64), 1.0)
        differs = got != want
        assert not (differs & ~tied[:, 0]).any()
        np.testing.assert_array_equal(got[differs], other[differs, 0])
        moved += differs.sum()
    assert moved > 0
    assert tied.mean() < 0.02
