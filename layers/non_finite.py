"""Whether a checkpoint tensor holds NaN or Inf, also in the scale formats that torch cannot ask."""

from __future__ import annotations

import torch


def has_non_finite(tensor: torch.Tensor) -> bool:
    """Whether a float, or a scale of a narrow format, is NaN or Inf.

    Args:
        tensor: any shape; float32, float16, bfloat16, float8_e5m2; float8_e4m3fn, which has NaN
            (0x7F, 0xFF) and no Inf; E8M0 (OCP MX), whose NaN is 0xFF, as float8_e8m0fnu or in the
            uint8 that checkpoints store it in.
    """
    if tensor.dtype is torch.float8_e4m3fn:
        # torch has no isfinite for this dtype.
        return bool((tensor.view(torch.uint8).bitwise_and(0x7F) == 0x7F).any())
    if tensor.dtype in (torch.uint8, torch.float8_e8m0fnu):
        return bool((tensor.view(torch.uint8) == 0xFF).any())
    return not bool(torch.isfinite(tensor).all())
