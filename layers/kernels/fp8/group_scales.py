"""How the scales of activations lie that have one for each 128 of K: as tensor cores read them.

All rows of the first group come first, and each group's rows start on 16 bytes: rows are rounded up
to a multiple of 4. cuBLASLt, DeepGEMM and CUTLASS read such scales with no copy in between, the
first and last if codes have as many rows.
"""

from __future__ import annotations

import torch

from layers.sharding import ceil_div

GROUP = 128
ROWS = 4


def whole_rows(rows: int) -> int:
    """`rows`, rounded up to the multiple of 4 that a group of scales takes."""
    return ceil_div(rows, ROWS) * ROWS


def group_major(scales: torch.Tensor) -> torch.Tensor:
    """Scales (M, groups) with strides (1, M rounded up to 4): copied only if they lie otherwise."""
    rows, groups = scales.shape
    total = whole_rows(rows)
    held = scales.untyped_storage().nbytes() // scales.element_size() - scales.storage_offset()
    if scales.stride() == (1, total) and held >= groups * total:
        return scales
    padded = scales.new_zeros((groups, total))[:, :rows].t()
    return padded.copy_(scales)


def with_whole_rows(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales for a matmul that takes rows by fours; its rows beyond M are to be dropped.

    The memory behind the codes is used where there is enough, as the Triton quantiser leaves it.

    Args:
        codes: (M, K) float8_e4m3fn, contiguous.
        scales: (M, groups) float32.

    Returns:
        codes (M4, K), scales (M4, groups) with strides (1, M4), where M4 is M rounded up to 4.
    """
    rows, columns = codes.shape
    total = whole_rows(rows)
    scales = group_major(scales).as_strided((total, scales.shape[1]), (1, total))
    if total == rows:
        return codes, scales
    if codes.untyped_storage().nbytes() - codes.storage_offset() < total * columns:
        padding = (0, 0, 0, total - rows)
        padded = torch.nn.functional.pad(codes.view(torch.uint8), padding)
        return padded.view(torch.float8_e4m3fn), scales
    return codes.as_strided((total, columns), (columns, 1)), scales
