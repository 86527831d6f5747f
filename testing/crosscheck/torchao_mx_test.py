"""The MX encoders against torchao's `to_mx` under each of its scaling modes.

FLOOR, EVEN and RCEIL are the oracle's floor, even and ceil; CEIL is ceil with the element's largest
power of two for its maximum. Three differences, each bounded here:

- a scale byte of 0 means 2^-127, but torchao divides by 2^-126 (float32's smallest normal) there,
  and multiplies by 1 under RCEIL: elements of such blocks differ, none above maximum·2^-126;
- RCEIL takes ⌈log2(amax/max)⌉ with a float32 logarithm, which cannot tell an amax just above
  max·2^e from one on it: the scale is half the definition's there, the element saturates;
- an infinity makes the oracle's scale NaN; torchao gives it the scale of 2^128, or 254.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torchao.prototype.mx_formats.config import ScaleCalculationMode as Mode
from torchao.prototype.mx_formats.mx_tensor import to_mx

from testing.crosscheck.natural import ALIGNED, UNALIGNED, exactly, normal
from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, e8m0, mx
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16

SHAPES = [(m, k) for m, k in (*ALIGNED, *UNALIGNED) if k % 32 == 0]
DTYPES = {"e4m3": torch.float8_e4m3fn, "e2m1": torch.float4_e2m1fn_x2}
MAXIMUM = {"e4m3": e4m3.MAX, "e2m1": e2m1.MAX}
LARGEST_POWER = {"e4m3": 256.0, "e2m1": 4.0}
EMAX = {"e4m3": 8, "e2m1": 2}
MANTISSA_BITS = {"e4m3": 3, "e2m1": 1}
cases = pytest.mark.parametrize("mode", list(Mode))
elements = pytest.mark.parametrize("element", ["e4m3", "e2m1"])


def torchaos(x: torch.Tensor, element: mx.Element, mode: Mode) -> tuple[Codes, Codes]:
    """torchao's codes (M, K), one a byte, and scale bytes (M, K/32)."""
    scales, codes = to_mx(x, DTYPES[element], 32, mode)
    read = codes.view(torch.uint8).numpy()
    return e2m1.unpack(read) if element == "e2m1" else read, scales.view(torch.uint8).numpy()


def wanted_scales(values: Float64, element: mx.Element, mode: Mode) -> Codes:
    amax = np.abs(values).reshape(len(values), -1, 32).max(axis=2)
    rules: dict[Mode, Callable[[], Codes]] = {
        Mode.FLOOR: lambda: e8m0.floor_scale(amax, EMAX[element]),
        Mode.CEIL: lambda: e8m0.ceil_scale(amax, LARGEST_POWER[element]),
        Mode.EVEN: lambda: e8m0.even_scale(amax, EMAX[element], MANTISSA_BITS[element]),
        Mode.RCEIL: lambda: e8m0.ceil_scale(amax, MAXIMUM[element]),
    }
    return rules[mode]()


@cases
@elements
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_natural_data(m: int, k: int, dtype: torch.dtype, element: mx.Element, mode: Mode) -> None:
    x = normal(m, k, dtype)
    codes, scales = torchaos(x, element, mode)
    np.testing.assert_array_equal(scales, wanted_scales(exactly(x), element, mode))
    np.testing.assert_array_equal(codes, mx.quantise_under(exactly(x), scales, element))


@cases
@elements
def test_every_bf16_value(element: mx.Element, mode: Mode) -> None:
    values = finite_bf16().reshape(-1, 32)
    codes, scales = torchaos(torch.from_numpy(values).bfloat16(), element, mode)
    np.testing.assert_array_equal(scales, wanted_scales(values, element, mode))
    right = mx.quantise_under(values, scales, element)
    smallest = np.repeat(scales == 0, 32, axis=1)
    np.testing.assert_array_equal(codes[~smallest], right[~smallest])
    assert (np.abs(values[smallest]) <= MAXIMUM[element] * 2.0**-126).all()


@elements
def test_the_ceiling_of_a_rounded_logarithm(element: mx.Element) -> None:
    # Neighbours of max·2^e in float32, above and below.
    edges = np.ldexp(MAXIMUM[element], np.arange(-100, 100))
    amax = (edges * (1 + np.arange(-64, 65)[:, None] * 2.0**-22)).ravel()
    amax = amax.astype(np.float32).astype(np.float64)
    values = np.zeros((len(amax), 32))
    values[:, 0] = amax
    _, got = torchaos(torch.from_numpy(values).float(), element, Mode.RCEIL)
    want = wanted_scales(values, element, Mode.RCEIL)
    differs = got != want
    # The logarithm, at most 128 in size, is rounded to 2^-18: amax by a factor of 2^(2^-18).
    excess = amax / (MAXIMUM[element] * e8m0.decode(want[:, 0] - 1)) - 1
    assert (excess[differs[:, 0]] <= 2.0**-18 * np.log(2) * 1.01 + 2.0**-23).all()
    assert (got[differs] == want[differs] - 1).all()
    assert differs.any()


@elements
def test_what_is_not_finite(element: mx.Element) -> None:
    x = normal(4, 64)
    x[1, 3], x[2, 40] = float("nan"), float("inf")
    values = exactly(x)
    for mode in Mode:
        _, scales = torchaos(x, element, mode)
        want = wanted_scales(values, element, mode)
        assert scales[1, 0] == want[1, 0] == e8m0.NAN
        assert want[2, 1] == e8m0.NAN
        assert scales[2, 1] == (254 if mode is Mode.RCEIL else 255 - EMAX[element])
