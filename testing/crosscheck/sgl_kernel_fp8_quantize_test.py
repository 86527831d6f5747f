"""The oracle's fp8 quantisers against sgl_kernel's: scales within two ulps, codes equal off ties.

sgl_kernel forms s in float32 and multiplies by its reciprocal or divides by it, compiled with fast
division; where the definition's quotient lies within `codecs.quantised.WINDOW` of a midpoint, the
code may be the neighbour, and nowhere else. A row of zeros has the scale 0 there too, but the codes
0·(1/0), which come out as 448: what they decode to is 0 all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import sgl_kernel
import torch

from testing.crosscheck.differences import Differences
from testing.crosscheck.natural import ALIGNED, UNALIGNED, exactly, normal
from testing.harness.device import device
from testing.harness.records import record
from testing.oracles.arrays import Float32, Mask
from testing.oracles.codecs import fp8
from testing.oracles.codecs.grid import Codes

SIGN = 0x80
SCALE_ULPS = 2
"""s = amax/448 by division of two ulps at most (PTX `div.approx.f32`), or by a rounded 1/448."""
SMALLEST_AMAX = 1e-10
"""What the group quantiser takes for amax below it."""


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, Differences]]:
    found: dict[str, Differences] = {}
    yield found
    for differences in found.values():
        print(differences.figures())
        record(differences.figures())


def compare(
    found: Differences, what: str, q: torch.Tensor, s: torch.Tensor, want: Codes, near: Mask
) -> None:
    """q (M, K) and s (M, groups) of the kernel; want and near (M, K) of the oracle."""
    got = q.view(torch.uint8).cpu().numpy()
    scale = np.repeat(exactly(s), want.shape[1] // s.shape[1], axis=1)
    # Under a scale of 0, that of a row of zeros, no code is wrong.
    zero = (scale == 0) & (want & 0x7F == 0)
    found.codes(what, np.where(zero, want, got), want, near, SIGN)


def assert_scales(got: Float32, want: Float32) -> None:
    known = want > 0
    error = np.abs(got.astype(float) - want)[known] / want[known]
    assert (error <= SCALE_ULPS * 2.0**-23).all(), f"a scale is off by {error.max() * 2**23} ulps"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("m", "k"), [*ALIGNED, *UNALIGNED])
def test_a_scale_a_token(m: int, k: int, dtype: torch.dtype, seen: dict[str, Differences]) -> None:
    x = normal(m, k, dtype)
    q = torch.empty((m, k), dtype=torch.float8_e4m3fn, device=device())
    s = torch.empty((m, 1), dtype=torch.float32, device=device())
    sgl_kernel.sgl_per_token_quant_fp8(x.to(device()), q, s)
    want, scale = fp8.quantise_tokens(exactly(x))
    assert_scales(s.cpu().numpy(), scale)
    near = fp8.quantise_tokens_detail(exactly(x)).near_tie
    found = seen.setdefault("token", Differences("sgl_kernel.sgl_per_token_quant_fp8"))
    compare(found, f"{(m, k)} {dtype}", q, s, want, near)
    found.require()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("m", "k"), [(m, k) for m, k in ALIGNED if k % 128 == 0])
def test_a_scale_a_group(m: int, k: int, dtype: torch.dtype, seen: dict[str, Differences]) -> None:
    x = normal(m, k, dtype)
    q = torch.empty((m, k), dtype=torch.float8_e4m3fn, device=device())
    s = torch.empty((m, k // 128), dtype=torch.float32, device=device())
    sgl_kernel.sgl_per_token_group_quant_8bit(
        x.to(device()), q, s, 128, SMALLEST_AMAX, -448.0, 448.0
    )
    want, scale = fp8.quantise_groups(exactly(x))
    assert_scales(s.cpu().numpy(), scale)
    near = fp8.quantise_groups_detail(exactly(x)).near_tie
    found = seen.setdefault("group", Differences("sgl_kernel.sgl_per_token_group_quant_8bit"))
    compare(found, f"{(m, k)} {dtype}", q, s, want, near)
    found.require()
