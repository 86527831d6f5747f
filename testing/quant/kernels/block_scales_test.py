"""Block scales at the ends of their range, and every scale byte, by the formats' definitions."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from layers.kernels.fp4 import mxfp4_quant, nvfp4_quant
from layers.kernels.fp4.e2m1 import unpack
from layers.kernels.fp4.scales import decode_e4m3, decode_e8m0
from layers.kernels.fp8 import mxfp8_quant, mxfp8_scaled_mm
from testing.oracles.arrays import Float32
from testing.oracles.codecs import e4m3, e8m0, mx
from testing.oracles.codecs.grid import Codes

BLOCK = 32


def rows_of_every_power() -> Float32:
    """Blocks of zeros, and with the largest value at, just below and just above m · 2^e."""
    peaks = [m * 2.0**e for e in range(-140, 118) for m in (1.0, 1.5, 1.75)]
    largest = np.array(peaks, np.float32)
    around = (
        np.nextafter(largest, np.float32(0)),
        largest,
        np.nextafter(largest, np.float32(1e38)),
    )
    amax = np.concatenate([np.zeros(1, np.float32), *around])
    parts = np.linspace(-1, 1, BLOCK, dtype=np.float32)
    rows: Float32 = amax[:, None] * parts
    return rows


def test_mxfp8_from_the_smallest_to_the_largest_scale() -> None:
    x = rows_of_every_power()
    codes, scales = mxfp8_quant.quantise_torch(torch.from_numpy(x))
    wanted, wanted_scales = mx.quantise(x.astype(np.float64), "e4m3", BLOCK, "ceil")
    assert np.array_equal(scales.numpy(), wanted_scales)
    assert np.array_equal(codes.view(torch.uint8).numpy(), wanted)
    assert scales.min() == 0


def test_mxfp4_from_the_smallest_to_the_largest_scale() -> None:
    x = rows_of_every_power()
    packed, scales = mxfp4_quant.quantise_rows(torch.from_numpy(x))
    wanted, wanted_scales = mx.quantise(x.astype(np.float64), "e2m1", BLOCK, "floor")
    assert np.array_equal(scales.numpy(), wanted_scales)
    assert np.array_equal(unpack(packed).numpy(), wanted)
    assert scales.min() == 0


@pytest.mark.parametrize("decode", [decode_e8m0, mxfp8_scaled_mm.decode_scales])
def test_every_byte_of_e8m0(decode: Callable[[torch.Tensor], torch.Tensor]) -> None:
    codes: Codes = np.arange(256, dtype=np.uint8)
    decoded = decode(torch.from_numpy(codes)).double().numpy()
    assert np.array_equal(decoded, e8m0.decode(codes), equal_nan=True)


def test_every_byte_of_e4m3() -> None:
    codes: Codes = np.arange(256, dtype=np.uint8)
    decoded = decode_e4m3(torch.from_numpy(codes)).double().numpy()
    assert np.array_equal(decoded, e4m3.decode(codes), equal_nan=True)


def test_nvfp4_codes_are_zero_where_the_scale_is() -> None:
    # The second block's scale underflows, though its values do not.
    x = torch.cat([torch.zeros(1, 16), torch.full((1, 16), 2.0**-12), torch.ones(1, 16)], dim=1)
    packed, scales = nvfp4_quant.quantise_rows(x, torch.ones(1))
    assert scales.tolist() == [[0, 0, int(scales[0, 2])]]
    assert scales[0, 2] > 0
    assert not unpack(packed)[0, :32].any()
    assert unpack(packed)[0, 32:].all()
