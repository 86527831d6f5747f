"""The oracle's NVFP4 and MX encoders against FlashInfer's quantisers, byte for byte.

FlashInfer multiplies by approximate reciprocals: sf = e4m3(gs·(amax·rcp(6))) and
code = e2m1(x·rcp(sf·rcp(gs))), gs = fp32(1/g) or rcp(g). The definition divides by g. Where their
quotients lie on two sides of a midpoint, codes differ: only within `codecs.quantised.WINDOW` of it,
where the chain of roundings is added up, and then by one step.
"""

from __future__ import annotations

from collections.abc import Iterator

import flashinfer
import numpy as np
import pytest
import torch

from testing.crosscheck import flashinfer_sm90
from testing.crosscheck.differences import Differences
from testing.crosscheck.natural import ALIGNED, UNALIGNED, exactly, normal
from testing.harness.device import device
from testing.harness.records import record
from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, mx, nvfp4, swizzle
from testing.oracles.codecs.grid import Codes

SHAPES = [*ALIGNED, *UNALIGNED]
MX_SHAPES = [(m, k) for m, k in SHAPES if k % 32 == 0]


@pytest.fixture(scope="module", autouse=True)
def quantisers() -> Iterator[None]:
    """FlashInfer's own on sm100 and later; its sources for sm90 there."""
    if torch.cuda.get_device_capability(device()) >= (10, 0):
        yield
        return
    with flashinfer_sm90.quantisers():
        yield


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, Differences]]:
    found: dict[str, Differences] = {}
    yield found
    for differences in found.values():
        print(differences.figures())
        record(differences.figures())


def encode(
    x: torch.Tensor, g: np.float32, swizzled: bool, inverse: bool = False
) -> tuple[Codes, Codes]:
    """FlashInfer's packed codes (M, K/2) and scale bytes, as it lays them out.

    inverse: it is given g and takes the reciprocal itself, instead of fp32(1/g).
    """
    poison = torch.full((8 * x.numel() + 65536,), 0xA5, dtype=torch.uint8, device=device())
    del poison
    given = g if inverse else np.float32(1) / g
    packed, scales = flashinfer.fp4_quantize(
        x.to(device()),
        torch.tensor([float(given)], dtype=torch.float32, device=device()),
        is_sf_swizzled_layout=swizzled,
        is_global_scale_inversed=inverse,
    )
    return packed.cpu().numpy(), scales.view(torch.uint8).cpu().numpy()


def compare(
    found: Differences, x: torch.Tensor, g: np.float32, swizzled: bool, inverse: bool = False
) -> None:
    values = exactly(x)
    packed, scales = encode(x, g, swizzled, inverse)
    want = nvfp4.quantise(values, g)
    if swizzled:
        columns = values.shape[1] // 16
        linear = swizzle.unswizzle(scales, len(values), columns)
        # What is no scale is padding, and zero.
        np.testing.assert_array_equal(scales, swizzle.swizzle(linear))
    else:
        linear = scales.reshape(want.block_scale.shape)
    what = f"{tuple(x.shape)} {x.dtype} swizzled={swizzled} inverse={inverse}"
    tied = nvfp4.block_scale_near_ties(values, g)
    other = nvfp4.other_block_scale(values, g)
    found.scales(f"{what} scales", linear, want.block_scale, tied, other)
    # Codes under the scales that FlashInfer chose; under a scale of zero they mean nothing.
    codes, near = nvfp4.quantise_under(values, linear, g)
    meant = np.repeat(e4m3.decode(linear) > 0, 16, axis=1)
    got = np.where(meant, e2m1.unpack(packed), 0)
    found.codes(f"{what} codes", got, np.where(meant, codes, 0), near & meant, sign=8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("swizzled", [True, False], ids=["swizzled", "linear"])
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_nvfp4(
    m: int, k: int, swizzled: bool, dtype: torch.dtype, seen: dict[str, Differences]
) -> None:
    x = normal(m, k, dtype)
    g = np.float32(nvfp4.global_scale_of(exactly(x)))
    found = seen.setdefault("nvfp4", Differences("flashinfer.fp4_quantize"))
    for inverse in (False, True):
        compare(found, x, g, swizzled, inverse)
    found.require()


def test_a_checkpoints_input_scale_of_any_size(seen: dict[str, Differences]) -> None:
    # Each scale moves the quotients against the midpoints: many of them show a bias of 5e-6.
    x = normal(32, 512, torch.float16)
    found = seen.setdefault("nvfp4 scales", Differences("flashinfer.fp4_quantize, other scales"))
    for g in np.random.default_rng(7).uniform(0.001, 0.2, 400).astype(np.float32):
        compare(found, x, g, True, inverse=True)
    found.require()


def test_every_code_under_every_scale_is_kept() -> None:
    scales: Codes = np.arange(8, 0x7F, dtype=np.uint8)
    row = np.concatenate([np.arange(16), [7] * 16])
    values = e2m1.decode(np.tile(row, (len(scales), 1)).astype(np.uint8))
    x = torch.from_numpy(values * e4m3.decode(scales)[:, None] / 8).bfloat16()
    want = nvfp4.quantise(exactly(x), 0.125)
    packed, got = encode(x, np.float32(0.125), False)
    np.testing.assert_array_equal(got, want.block_scale)
    np.testing.assert_array_equal(packed, want.packed)


def test_ties_that_float32_holds_go_to_even(seen: dict[str, Differences]) -> None:
    # Powers of two as scales: the definition's quotients are exact ties.
    midpoints: Float64 = np.resize(e2m1.GRID.midpoints, (64, 64))
    midpoints[:, ::16] = 6
    x = torch.from_numpy(midpoints * 2.0 ** np.arange(-32, 32)[:, None] * 0.5).bfloat16()
    found = seen.setdefault("ties", Differences("flashinfer.fp4_quantize, exact ties"))
    for row in x.split(1):
        g = np.float32(exactly(row).max() / 6)
        compare(found, row, g, False)
    found.require()


def test_what_is_not_finite_stays_in_its_block() -> None:
    x = normal(64, 512)
    g = np.float32(nvfp4.global_scale_of(exactly(x)))
    clean = encode(x, g, False)
    x[3, 20], x[9, 300] = float("nan"), float("inf")
    packed, scales = encode(x, g, False)
    touched = np.argwhere(scales != clean[1]).tolist()
    assert all(place in ([3, 1], [9, 18]) for place in touched)
    blocks = (packed != clean[0]).reshape(64, -1, 8).any(axis=2)
    assert all(place in ([3, 1], [9, 18]) for place in np.argwhere(blocks).tolist())


@pytest.mark.parametrize(("m", "k"), MX_SHAPES)
def test_mxfp4_scales_are_rounded_up(m: int, k: int, seen: dict[str, Differences]) -> None:
    x = normal(m, k)
    values = exactly(x)
    packed, scales = flashinfer.mxfp4_quantize(x.to(device()))
    got = swizzle.unswizzle(scales.view(torch.uint8).cpu().numpy(), m, k // 32)
    want = mx.quantise(values, "e2m1", rule="ceil")[1]
    found = seen.setdefault("mxfp4", Differences("flashinfer.mxfp4_quantize"))
    found.scales(f"{(m, k)} scales", got, want, *mx.other_scales(values, "e2m1"))
    codes = e2m1.unpack(packed.view(torch.uint8).cpu().numpy())
    # Elements under FlashInfer's own scale have no near ties.
    right = mx.quantise_under(values, got, "e2m1")
    found.codes(f"{(m, k)} codes", codes, right, np.zeros(codes.shape, np.bool_), sign=8)
    found.require()


@pytest.mark.parametrize("swizzled", [True, False], ids=["swizzled", "linear"])
@pytest.mark.parametrize(("m", "k"), MX_SHAPES)
def test_mxfp8_scales_are_rounded_up(
    m: int, k: int, swizzled: bool, seen: dict[str, Differences]
) -> None:
    x = normal(m, k)
    values = exactly(x)
    codes, scales = flashinfer.mxfp8_quantize(x.to(device()), is_sf_swizzled_layout=swizzled)
    read = scales.view(torch.uint8).cpu().numpy()
    got = swizzle.unswizzle(read, m, k // 32) if swizzled else read.reshape(m, k // 32)
    want = mx.quantise(values, "e4m3", rule="ceil")[1]
    found = seen.setdefault("mxfp8", Differences("flashinfer.mxfp8_quantize"))
    what = f"{(m, k)} swizzled={swizzled}"
    found.scales(f"{what} scales", got, want, *mx.other_scales(values, "e4m3"))
    right = mx.quantise_under(values, got, "e4m3")
    bytes_ = codes.view(torch.uint8).cpu().numpy()
    found.codes(f"{what} codes", bytes_, right, np.zeros(right.shape, np.bool_), sign=0x80)
    found.require()


@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_swizzling_and_decoding(m: int, k: int) -> None:
    x = exactly(normal(m, k))
    want = nvfp4.quantise(x, nvfp4.global_scale_of(x))
    scales = torch.from_numpy(want.block_scale)
    swizzled = flashinfer.block_scale_interleave(scales.to(device())).cpu()
    np.testing.assert_array_equal(
        swizzled.numpy(), swizzle.swizzle(want.block_scale).ravel(), "block_scale_interleave"
    )
    got = flashinfer.e2m1_and_ufp8sf_scale_to_float(
        torch.from_numpy(want.packed),
        swizzled,
        torch.tensor([float(want.global_scale)]),
        16,
        1,
        True,
    )
    # Three factors of 2, 4 and 24 bits: float32 rounds their product once or twice.
    np.testing.assert_allclose(got.cpu().double().numpy(), nvfp4.dequantise(want), rtol=2.0**-22)
