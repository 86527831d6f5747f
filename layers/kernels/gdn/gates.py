"""Decay and write strength of the gated delta rule (arXiv:2412.06464, with Mamba2's decay)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

Computed = tuple[torch.Tensor, torch.Tensor]


def compute_gates(
    a: torch.Tensor, b: torch.Tensor, a_log: torch.Tensor, dt_bias: torch.Tensor
) -> Computed:
    """(g, β), both (T, Hv) float32: g = -exp(A_log) · softplus(a + dt_bias), β = sigmoid(b).

    Args:
        a, b: (T, Hv), of any float dtype.
        a_log, dt_bias: (Hv,) float32.
    """
    return log_decay(a, a_log, dt_bias), torch.sigmoid(b.float())


def log_decay(a: torch.Tensor, a_log: torch.Tensor, dt_bias: torch.Tensor) -> torch.Tensor:
    """ln of what a token leaves of the state: (T, Hv) float32, at most 0."""
    return -a_log.exp() * F.softplus(a.float() + dt_bias)


@dataclass(frozen=True)
class Gates:
    """What the gates are computed from; a kernel takes their values, or computes them itself.

    a, b: (T, Hv) float; a_log, dt_bias: (Hv,) float32; compute: as `compute_gates`.
    """

    a: torch.Tensor
    b: torch.Tensor
    a_log: torch.Tensor
    dt_bias: torch.Tensor
    compute: Callable[..., Computed] = compute_gates

    def values(self) -> Computed:
        """(g, β), both (T, Hv) float32."""
        return self.compute(self.a, self.b, self.a_log, self.dt_bias)
