"""The NVFP4 encoder against torchao's `nvfp4_quantize`, and e2m1 and the swizzle against its own.

Three differences, each bounded here:

- torchao multiplies by fp32(fp32(1/g)/sf) where the definition divides by sf·g: one code step,
  within `codecs.quantised.WINDOW` of a midpoint only;
- it raises block scales below 2^-6, the smallest normal e4m3, to 2^-6, zeros among them; the
  definition uses subnormal scales, as FlashInfer's kernels do;
- without a per-tensor scale it quantises on one level: that is the definition with g = 1.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchao.prototype.mx_formats.kernels import f32_to_f4_unpacked, pack_uint4
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
from torchao.prototype.mx_formats.utils import from_blocked, to_blocked

from testing.crosscheck.differences import Differences
from testing.crosscheck.natural import ALIGNED, UNALIGNED, exactly, normal
from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, nvfp4, swizzle
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.inputs import finite_bf16, finite_fp16

SHAPES = [*ALIGNED, *UNALIGNED]
SMALLEST_NORMAL: Codes = np.array(0x08, np.uint8)


def torchaos(x: torch.Tensor, g: float | None) -> tuple[Codes, Codes]:
    """torchao's codes (M, K) and block scale bytes (M, K/16)."""
    scale = None if g is None else torch.tensor(g, dtype=torch.float32)
    scales, packed = nvfp4_quantize(x, 16, scale)
    rows = scales.view(torch.uint8).numpy().reshape(len(x), -1)
    return e2m1.unpack(packed.numpy()), rows


def compare(found: Differences, what: str, x: torch.Tensor, g: float | None) -> None:
    values, scale = exactly(x), 1.0 if g is None else g
    codes, scales = torchaos(x, g)
    want = nvfp4.quantise(values, scale).block_scale
    raised = want < SMALLEST_NORMAL
    assert (scales[raised] == SMALLEST_NORMAL).all()
    tied = nvfp4.block_scale_near_ties(values, scale) & ~raised
    other = nvfp4.other_block_scale(values, scale)
    found.scales(f"{what} scales", np.where(raised, want, scales), want, tied, other)
    right, near = nvfp4.quantise_under(values, scales, scale)
    found.codes(f"{what} codes", codes, right, near, sign=8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_natural_data(m: int, k: int, dtype: torch.dtype) -> None:
    x = normal(m, k, dtype)
    g = nvfp4.global_scale_of(exactly(x))
    assert float(per_tensor_amax_to_scale(x.abs().max())) == float(g)
    found = Differences("torchao nvfp4_quantize")
    compare(found, "two levels", x, float(g))
    compare(found, "one level", x, None)
    found.require()


def test_ties_do_come_out_otherwise_and_only_they() -> None:
    x = normal(256, 1024)
    found = Differences("torchao nvfp4_quantize")
    compare(found, "ties", x, float(nvfp4.global_scale_of(exactly(x))))
    found.require()
    assert 0 < found.other < found.near_ties < found.compared / 10


def test_every_bf16_value() -> None:
    values = finite_bf16().reshape(-1, 16)
    x = torch.from_numpy(values).bfloat16()
    found = Differences("torchao nvfp4_quantize")
    for g in (1.0, 0.0371, 2.0**-8):
        compare(found, f"g = {g}", x, float(np.float32(g)))
    found.require()


@pytest.mark.parametrize("values", [finite_bf16(), finite_fp16()], ids=["bf16", "fp16"])
def test_e2m1_over_every_input(values: Float64) -> None:
    x = torch.from_numpy(values).float()
    np.testing.assert_array_equal(f32_to_f4_unpacked(x).numpy(), e2m1.encode(values))


def test_packing() -> None:
    codes: Codes = np.random.default_rng(1).integers(0, 16, (5, 48), np.uint8)
    np.testing.assert_array_equal(pack_uint4(torch.from_numpy(codes)).numpy(), e2m1.pack(codes))


@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_swizzle(m: int, k: int) -> None:
    scales: Codes = np.random.default_rng(m + k).integers(0, 256, (m, k // 16), np.uint8)
    blocked = to_blocked(torch.from_numpy(scales))
    np.testing.assert_array_equal(blocked.numpy(), swizzle.swizzle(scales).ravel())
    np.testing.assert_array_equal(swizzle.unswizzle(blocked.numpy(), m, k // 16), scales)
    back = from_blocked(blocked, m, k // 16).numpy()
    np.testing.assert_array_equal(back, swizzle.unswizzle(blocked.numpy(), m, k // 16))


def test_a_nan_is_seen_in_its_block_scale_by_the_oracle_and_torchao() -> None:
    x = normal(4, 32)
    x[3, 5] = float("nan")
    scales = torchaos(x, 0.01)[1]
    assert scales[3, 0] & 0x7F == e4m3.NAN
    assert nvfp4.quantise(exactly(x), 0.01).block_scale[3, 0] == e4m3.NAN
