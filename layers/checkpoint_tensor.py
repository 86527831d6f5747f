"""What every checkpoint tensor must be before a parameter looks at its shape."""

from __future__ import annotations

from typing import Any

import torch

from layers.errors import WeightLoadError
from layers.non_finite import has_non_finite


def check_dense(label: str, loaded: Any) -> None:
    """Refuses what holds no values that could be copied.

    Args:
        label: the parameter, for the message.
        loaded: what the caller gave as a checkpoint tensor.

    Raises:
        WeightLoadError: no tensor; sparse; on the meta device.
    """
    if not isinstance(loaded, torch.Tensor):
        raise WeightLoadError(
            f"tensor for {label} is a {type(loaded).__module__}.{type(loaded).__name__}, wanted a "
            f"torch.Tensor. Convert it first, such as with torch.from_numpy()."
        )
    if loaded.layout is not torch.strided:
        raise WeightLoadError(
            f"tensor for {label} has layout {loaded.layout}, wanted torch.strided. Load "
            f"tensor.to_dense()."
        )
    if loaded.is_meta:
        raise WeightLoadError(
            f"tensor for {label} is on the meta device, which holds no values. Read the "
            f"checkpoint onto the CPU or a GPU."
        )


def check_cast(label: str, part: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuses finite values that become infinite in the parameter's dtype.

    Raises:
        WeightLoadError: with the largest such value.
    """
    if part.dtype is dtype or not dtype.is_floating_point:
        return
    cast = part.to(dtype)
    if not has_non_finite(cast):
        return
    # Cell by cell: an Inf that the checkpoint holds must not hide one that the cast makes.
    lost = part[torch.isfinite(part) & ~torch.isfinite(cast)]
    if lost.numel():
        raise WeightLoadError(
            f"tensor for {label} has values up to {float(lost.abs().max()):g}, beyond "
            f"{str(dtype)[6:]}'s {torch.finfo(dtype).max:g}. Use a params_dtype that holds them."
        )


def has_negative(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds a value below 0; -0 is none, a NaN of e4m3 (0xFF) counts."""
    if tensor.dtype is torch.float8_e4m3fn:
        return bool((tensor.view(torch.uint8) > 0x80).any())
    # Codes and powers of two (E8M0) have no sign.
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return False
    return bool((tensor < 0).any())
