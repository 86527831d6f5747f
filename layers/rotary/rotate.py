"""The rotation of pairs of values by given angles, and its backends.

    x'_a = x_a · cos - x_b · sin
    x'_b = x_b · cos + x_a · sin

in float32, rounded once. The pairs (a, b) are (i, i + D / 2) in style "neox", (2i, 2i + 1) in
style "gptj".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Needs, Operation


def rotate_torch(
    tensors: tuple[torch.Tensor, ...],
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    style: str,
) -> list[torch.Tensor]:
    """On any device.

    Args:
        tensors: each (T, …, D), of any float dtype.
        positions: (T,) int32 or int64.
        cos, sin: (max_position, D / 2) float32.
        style: "neox" or "gptj".

    Returns:
        As many, of the same shapes and dtypes, in new memory.
    """
    index = positions.long()
    cos, sin = cos[index], sin[index]
    return [_rotate(x, cos, sin, style) for x in tensors]


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str) -> torch.Tensor:
    shape = (cos.shape[0], *(1,) * (x.dim() - 2), cos.shape[1])
    cos, sin = cos.view(shape), sin.view(shape)
    first, second = split_pairs(x.float(), style)
    return join_pairs(first * cos - second * sin, second * cos + first * sin, style).to(x.dtype)


def split_pairs(x: torch.Tensor, style: str) -> tuple[torch.Tensor, torch.Tensor]:
    """x (…, D) -> the first and the second values of its pairs, (…, D / 2) each."""
    if style == "gptj":
        return x[..., 0::2], x[..., 1::2]
    first, second = x.chunk(2, dim=-1)
    return first, second


def join_pairs(first: torch.Tensor, second: torch.Tensor, style: str) -> torch.Tensor:
    """The inverse of `split_pairs`."""
    if style == "gptj":
        return torch.stack((first, second), dim=-1).flatten(-2)
    return torch.cat((first, second), dim=-1)


def _load_triton() -> Callable[..., Any]:
    from layers.rotary.rotate_triton import rotate_triton

    return rotate_triton


ROTATE = Operation(
    "rotate",
    (
        Backend("triton", Needs(package="triton", min_arch=(8, 0)), _load_triton),
        Backend("torch", Needs(), lambda: rotate_torch),
    ),
)
