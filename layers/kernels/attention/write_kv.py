"""Puts new keys and values in the slots of a paged cache, and its backends.

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
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    slots: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_scale: float,
    v_scale: float,
) -> None:
    """On any device.

    Args:
        k_pages: (pages, page_size, Hkv, D), v_pages: (pages, page_size, Hkv, Dv), contiguous.
        slots: (T,) int64, page · page_size + offset; distinct.
        k: (T, Hkv, D), v: (T, Hkv, Dv), of the pages' dtype, or any float for codes.
        k_scale, v_scale: of codes.
    """
    _put(k_pages, slots, k, k_scale)
    _put(v_pages, slots, v, v_scale)


def _put(pages: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor, scale: float) -> None:
    if pages.dtype is torch.float8_e4m3fn:
        # A tensor, as on CUDA torch divides by a Python number as a product with its reciprocal.
        divisor = torch.full((), scale, dtype=torch.float32, device=rows.device)
        rows, pages = encode(rows.float() / divisor).view(torch.uint8), pages.view(torch.uint8)
    pages.flatten(0, 1).index_copy_(0, slots, rows)


def _load_triton() -> Callable[..., Any]:
    from layers.kernels.attention.write_kv_triton import write_triton

    return write_triton


WRITE_KV = Operation(
    "write_kv",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 9)), _load_triton),
        Backend("torch", Needs(), lambda: write_torch),
    ),
)
