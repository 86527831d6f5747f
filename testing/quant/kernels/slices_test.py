"""A weight of 4-bit blocks that is dequantised in several slices gives what one slice gives."""

import pytest
import torch

from layers.kernels.fp4 import dequantise
from layers.kernels.fp4.scales import MXFP4, NVFP4, BlockFormat
from layers.kernels.fp4.swizzle import swizzle

ROWS, COLUMNS = 300, 96


@pytest.mark.parametrize("block", [NVFP4, MXFP4], ids=lambda b: b.name)
@pytest.mark.parametrize("elements", [1, 128 * COLUMNS, 3 * 128 * COLUMNS - 1])
def test_the_height_of_a_slice_changes_nothing(
    block: BlockFormat, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(83)
    packed = torch.randint(256, (ROWS, COLUMNS // 2), dtype=torch.uint8, generator=generator)
    # Around 1 in both formats.
    shape = (ROWS, COLUMNS // block.group)
    low = 0x30 if block is NVFP4 else 120
    scales = torch.randint(low, low + 16, shape, dtype=torch.uint8, generator=generator)
    x = torch.randint(-4, 5, (3, COLUMNS), generator=generator).float()
    wanted = x @ dequantise.dequantise(packed, scales, block).t()

    monkeypatch.setattr(dequantise, "SLICE_ELEMENTS", elements)
    slices = [part for part, _ in dequantise.dequantise_slices(packed, swizzle(scales), block)]

    assert len(slices) == (3 if elements < 2 * 128 * COLUMNS else 2)
    # Few bits on both sides: sums are exact in any order.
    assert torch.equal(dequantise.multiply_slices(x, packed, swizzle(scales), block), wanted)
