"""The 128x4 layout: every byte against an independent loop, and shapes that are not aligned."""

import numpy as np
import pytest

from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.swizzle import offset, padded, swizzle, unswizzle

# Rows and scale columns: K of 512, 896, 336 and 1040 at 16 a scale, and of 48 and 16.
SHAPES = [(64, 32), (5, 56), (5, 21), (129, 65), (300, 3), (128, 4), (1, 1), (257, 10)]


def random_scales(rows: int, columns: int) -> Codes:
    return np.random.default_rng(rows * 1000 + columns).integers(1, 256, (rows, columns), np.uint8)


def by_a_loop(scales: Codes) -> list[int]:
    """From the words of the layout: tiles of 128x4, in each the 32 rows of four groups of rows."""
    rows, columns = scales.shape
    out = []
    for top in range(0, rows, 128):
        for left in range(0, columns, 4):
            for row in range(32):
                for group in range(4):
                    for column in range(4):
                        r, c = top + 32 * group + row, left + column
                        out.append(int(scales[r, c]) if r < rows and c < columns else 0)
    return out


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_every_byte_is_where_the_layout_says(rows: int, columns: int) -> None:
    scales = random_scales(rows, columns)
    got = swizzle(scales)
    assert got.shape == padded(rows, columns)
    assert got.ravel().tolist() == by_a_loop(scales)
    for r in range(rows):
        for c in range(columns):
            assert got.ravel()[offset(r, c, columns)] == scales[r, c]


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_unswizzling_crops_rows_and_scale_columns(rows: int, columns: int) -> None:
    scales = random_scales(rows, columns)
    np.testing.assert_array_equal(unswizzle(swizzle(scales), rows, columns), scales)
    np.testing.assert_array_equal(unswizzle(swizzle(scales).ravel(), rows, columns), scales)


def test_offsets_by_hand() -> None:
    assert offset(0, 0, 8) == 0
    assert offset(0, 3, 8) == 3
    assert offset(0, 4, 8) == 512
    assert offset(1, 0, 8) == 16
    assert offset(32, 0, 8) == 4
    assert offset(127, 3, 8) == 511
    assert offset(128, 0, 8) == 1024
    # Five columns take two tiles.
    assert offset(128, 0, 5) == 1024


@pytest.mark.parametrize(("rows", "columns"), [(64, 512), (129, 32), (1, 36)])
def test_counting_elements_for_scales_is_refused(rows: int, columns: int) -> None:
    buffer = swizzle(random_scales(64, 32))
    with pytest.raises(ValueError, match=r"columns count scales \(k/16 or k/32\), not elements"):
        unswizzle(buffer, rows, columns)


def test_padding_is_zero() -> None:
    scales: Codes = np.full((5, 21), 255, np.uint8)
    assert (swizzle(scales) != 0).sum() == 5 * 21
