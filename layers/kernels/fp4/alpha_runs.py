"""Weights for kernels that take one alpha a matmul: a buffer of its own for each run of rows.

Shards of a fused layer may differ in their global scale. Neighbouring rows with the same alpha form
a run; each run's codes are padded to whole tiles of the kernel and its block scales swizzled by
themselves, so that a run may have any number of rows. One matmul a run, then a concatenation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from layers.kernels.fp4.swizzle import TILE_ROWS, swizzle
from layers.sharding import ceil_div

# (a, weight (K / 2, N) column-major, a scales, weight scales (C4, N128) likewise, alpha (1,) or
# None, dtype) -> (M, N).
Matmul = Callable[
    [
        torch.Tensor,
        torch.Tensor,
        torch.Tensor,
        torch.Tensor,
        torch.Tensor | None,
        torch.dtype,
    ],
    torch.Tensor,
]
Shuffle = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Run:
    """Rows of the layer's output that share an alpha, and where the padded buffers hold them."""

    rows: int
    codes: slice
    scales: slice


@dataclass(frozen=True)
class RunWeights:
    """A weight arranged by runs.

    weight: (Σ padded rows, K padded / 2) uint8.
    scale: (Σ rows padded to 128, C4) uint8, swizzled run by run.
    alpha: (runs,) float32, or None where the format has none.
    """

    weight: torch.Tensor
    scale: torch.Tensor
    alpha: torch.Tensor | None
    runs: tuple[Run, ...]


def swizzle_rows(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The `Shuffle` of kernels that read rows in their own order."""
    return codes, swizzle(scales)


def arrange_runs(
    weight: torch.Tensor,
    scales: torch.Tensor,
    alpha: torch.Tensor | None,
    *,
    row_multiple: int,
    column_multiple: int,
    shuffle: Shuffle = swizzle_rows,
) -> RunWeights:
    """Pads, swizzles and stacks the runs of a weight, in new memory.

    Args:
        weight: (N, K / 2) uint8, packed E2M1.
        scales: (N, K / group) uint8, row-major.
        alpha: (N,) float32, or None for a single run.
        row_multiple, column_multiple: of N and K, that the kernel wants; zeros are added. Columns
            added to K must lie within the scales' own padding to four.
        shuffle: what the kernel makes of a run's padded codes and row-major scales.
    """
    rows = [len(weight)] if alpha is None else _run_lengths(alpha)
    columns = weight.shape[1]
    padding = ceil_div(columns * 2, column_multiple) * column_multiple // 2 - columns
    weights, swizzled, runs = [], [], []
    code_start = scale_start = 0
    for codes, scale in zip(weight.split(rows), scales.split(rows), strict=True):
        height = ceil_div(len(codes), row_multiple) * row_multiple
        below = height - len(codes)
        padded = torch.nn.functional.pad(codes, (0, padding, 0, below))
        laid_out = shuffle(padded, torch.nn.functional.pad(scale, (0, 0, 0, below)))
        weights.append(laid_out[0])
        swizzled.append(laid_out[1])
        scale_height = ceil_div(height, TILE_ROWS) * TILE_ROWS
        code_rows = slice(code_start, code_start + height)
        scale_rows = slice(scale_start, scale_start + scale_height)
        runs.append(Run(len(codes), code_rows, scale_rows))
        code_start, scale_start = code_rows.stop, scale_rows.stop
    alphas = None if alpha is None else alpha[torch.tensor([0, *rows[:-1]]).cumsum(0)]
    return RunWeights(torch.cat(weights), torch.cat(swizzled), alphas, tuple(runs))


def multiply_runs(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    bias: None = None,
    *,
    runs: tuple[Run, ...],
    matmul: Matmul,
) -> torch.Tensor:
    """a (M, K / 2) times the weight that `arrange_runs` made -> (M, N) of out_dtype; no bias."""
    missing = weight.shape[1] - a.shape[1]
    if missing:
        a = torch.nn.functional.pad(a, (0, missing))
    parts = []
    for index, run in enumerate(runs):
        scale = None if alpha is None else alpha[index : index + 1]
        codes, scales = weight[run.codes], weight_scale[run.scales]
        part = matmul(a, codes.t(), a_scale, scales.t(), scale, out_dtype)
        parts.append(part[:, : run.rows])
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts, dim=1)


def _run_lengths(alpha: torch.Tensor) -> list[int]:
    lengths: list[int] = torch.unique_consecutive(alpha, return_counts=True)[1].tolist()
    return lengths
