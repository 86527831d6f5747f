"""Puts new latents in the slots of a paged cache, and its backends.

A cache of float8_e4m3fn takes codes, e4m3(x / scale), divided in float32, rounded half to even and
saturating; NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation
from layers.kernels.fp8.e4m3 import encode


def write_torch(
    pages: torch.Tensor,
    slots: torch.Tensor,
    kv_c: torch.Tensor,
    k_pe: torch.Tensor,
    scale: float,
) -> None:
    """On any device.

    Args:
        pages: (pages, page_size, R + rope), contiguous.
        slots: (T,) int64, page · page_size + offset; distinct.
        kv_c: (T, R), k_pe: (T, rope), of the pages' dtype, or any float for codes.
        scale: of codes.
    """
    rows = torch.cat((kv_c, k_pe), dim=-1)
    if pages.dtype is torch.float8_e4m3fn:
        # A tensor, as on CUDA torch divides by a Python number as a product with its reciprocal.
        divisor = torch.full((), scale, dtype=torch.float32, device=rows.device)
        rows, pages = encode(rows.float() / divisor).view(torch.uint8), pages.view(torch.uint8)
    pages.flatten(0, 1).index_copy_(0, slots, rows)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.mla.write_latents_triton import write_triton

    return write_triton


WRITE_LATENTS = Operation(
    "write_latents",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: write_torch),
    ),
)
