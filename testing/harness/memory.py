"""Uninitialised memory that gives itself away."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """torch.empty and its kin give NaN, or the largest integer, in place of whatever was there.

    An output, scale or padding that a kernel forgets to write then shows. This is torch's own
    `torch.utils.deterministic.fill_uninitialized_memory`, which works in deterministic mode only.
    """
    mode = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Dd]eterministic.*")
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def padded_view(x: torch.Tensor) -> torch.Tensor:
    """x (M, K) as a window into a larger tensor of NaN: rows below and columns to the right."""
    rows, columns = x.shape
    frame = torch.full((rows + 3, columns + 8), float("nan"), dtype=x.dtype, device=x.device)
    window = frame[:rows, :columns]
    window.copy_(x)
    return window
