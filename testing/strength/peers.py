"""The criteria of other projects' tests, on outputs of natural data.

They compare with x·dq(W)ᵀ of the activations before quantisation, as those tests do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testing.oracles.arrays import Float64

Criterion = Callable[[Float64, Float64], bool]
"""(output, reference) → accepted."""


def allclose(output: Float64, reference: Float64) -> bool:
    """|y - r| ≤ 0.1 + 0.05·|r| in every element, with outputs of RMS 1: rtol 5e-2, atol 1e-1."""
    unit = np.sqrt(np.mean(reference**2))
    return bool(np.allclose(output / unit, reference / unit, rtol=5e-2, atol=1e-1))


def cosine(output: Float64, reference: Float64) -> bool:
    """Cosine of the angle between the two whole tensors at least 0.99."""
    norms = np.linalg.norm(output) * np.linalg.norm(reference)
    return bool(np.sum(output * reference) / norms >= 0.99)


def calc_diff(limit: float) -> Criterion:
    """1 - 2xy/(x² + y²) below `limit`: 0.001 with operands of eight bits, 0.02 with fp4."""

    def accept(output: Float64, reference: Float64) -> bool:
        size = float(np.sum(output**2 + reference**2))
        return 1 - 2 * float(np.sum(output * reference)) / size < limit

    return accept
