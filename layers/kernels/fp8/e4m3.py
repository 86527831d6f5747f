"""E4M3FN, the 8-bit float of these operations: its range, and how torch rounds to it."""

from __future__ import annotations

import torch

E4M3_MAX = 448.0
# Scales below the smallest normal float32 are raised to it: arithmetic may flush what lies below.
SMALLEST_SCALE = 2.0**-126


def encode(quotient: torch.Tensor) -> torch.Tensor:
    """float32 of any shape -> float8_e4m3fn: half to even, saturating at ±448; NaN stays NaN."""
    # torch up to 2.12 casts what lies above the range to NaN.
    return quotient.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def scale_of(amax: torch.Tensor) -> torch.Tensor:
    """amax / 448, at least 2^-126, in float32; NaN and Inf stay what they are."""
    # On CUDA torch divides by a Python number as a product with its rounded reciprocal.
    divisor = torch.full((), E4M3_MAX, dtype=torch.float32, device=amax.device)
    return (amax / divisor).clamp_(min=SMALLEST_SCALE)
