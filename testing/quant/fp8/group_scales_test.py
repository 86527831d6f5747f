"""Scales by groups of 128 lie on whole fours of rows, and are copied only where they do not."""

import pytest
import torch

from layers.kernels.fp8.group_scales import group_major, with_whole_rows
from layers.kernels.fp8.per_token_group_fp8_quant import quantise_torch

ROWS = [1, 3, 4, 5, 8]


def quantised(rows: int, columns: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    return quantise_torch(torch.randn(rows, columns, generator=generator))


@pytest.mark.parametrize("rows", ROWS)
def test_a_quantiser_leaves_them_in_place(rows: int) -> None:
    _, scales = quantised(rows)
    assert scales.stride() == (1, -(-rows // 4) * 4)
    assert group_major(scales).data_ptr() == scales.data_ptr()


@pytest.mark.parametrize("rows", ROWS)
def test_others_are_brought_there(rows: int) -> None:
    _, scales = quantised(rows)
    for other in (scales.contiguous(), scales.contiguous().t().contiguous().t()):
        placed = group_major(other)
        assert torch.equal(placed, scales)
        assert placed.stride() == (1, -(-rows // 4) * 4)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("room", [0, 4])
def test_rows_are_filled_up_from_the_memory_behind_or_by_a_copy(rows: int, room: int) -> None:
    codes, scales = quantised(rows)
    memory = torch.zeros(rows + room, codes.shape[1], dtype=torch.uint8).view(codes.dtype)
    memory[:rows] = codes
    total = -(-rows // 4) * 4

    whole, whole_scales = with_whole_rows(memory[:rows], scales)

    assert whole.shape == (total, codes.shape[1])
    assert whole_scales.shape == (total, scales.shape[1])
    assert torch.equal(whole[:rows].view(torch.uint8), codes.view(torch.uint8))
    assert torch.equal(whole_scales[:rows], scales)
    copied = whole.data_ptr() != memory.data_ptr()
    assert copied == (room == 0 and total != rows)


@pytest.mark.parametrize("rows", [1, 5])
def test_scales_without_memory_for_whole_rows_are_copied(rows: int) -> None:
    # Strides are right, but behind the last group's rows the memory ends.
    total = -(-rows // 4) * 4
    memory = torch.arange(2 * total + rows, dtype=torch.float32)
    scales = memory.as_strided((rows, 3), (1, total))
    _, whole = with_whole_rows(torch.zeros(rows, 384).to(torch.float8_e4m3fn), scales)
    assert whole.shape == (total, 3)
    assert torch.equal(whole[:rows], scales)
