"""What the grouped matmuls of a MoE layer take and return, and their torch backends.

    y[p] = a[row of p] · w[expert of p]ᵀ, scaled, + bias[expert of p]

in float32, unrounded. A row of `a` serves all pairs of a token, or one pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from layers.kernels.moe.routing import Routing

MultiplyOne = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None],
    torch.Tensor,
]


class GroupedMultiply(Protocol):
    """A grouped matmul.

    Args:
        a: (T or T · K, columns) codes or floats.
        a_scale: for each row of a its scales, or None.
        weight: (experts, N, columns).
        weight_scale: (experts, …), or None.
        bias: (experts, N), or None.
        routing: which expert each of the T · K pairs goes to.

    Returns:
        (T · K, N) float32; rows of other ranks' pairs are 0.
    """

    def __call__(
        self,
        a: torch.Tensor,
        a_scale: torch.Tensor | None,
        weight: torch.Tensor,
        weight_scale: torch.Tensor | None,
        bias: torch.Tensor | None,
        routing: Routing,
    ) -> torch.Tensor:
        """The protocol's only call."""
        ...


# A BLAS multiplies fewer rows by other kernels, which sum in another order: a token's result would
# then depend on how many others chose its expert.
INVARIANT_ROWS = 8


def expert_by_expert(multiply_one: MultiplyOne) -> GroupedMultiply:
    """A grouped matmul that calls `multiply_one` for each expert that anybody chose.

    Args:
        multiply_one: (a (m, k), one expert's weight (N, k), a's scales, the weight's, bias (N,))
            -> (m, N) float32.
    """

    def multiply(
        a: torch.Tensor,
        a_scale: torch.Tensor | None,
        weight: torch.Tensor,
        weight_scale: torch.Tensor | None,
        bias: torch.Tensor | None,
        routing: Routing,
    ) -> torch.Tensor:
        out = torch.zeros((routing.pairs, weight.shape[1]), dtype=torch.float32, device=a.device)
        for expert, pairs in enumerate(routing.by_expert()):
            if not pairs.numel():
                continue
            rows = invariant(pairs // routing.pairs_per_row(a))
            out[pairs] = multiply_one(
                a[rows],
                weight[expert],
                None if a_scale is None else a_scale[rows],
                None if weight_scale is None else weight_scale[expert],
                None if bias is None else bias[expert],
            )[: pairs.numel()]
        return out

    return multiply


def invariant(rows: torch.Tensor) -> torch.Tensor:
    """The row numbers, at least `INVARIANT_ROWS`: the first one repeated where they are fewer."""
    return torch.cat([rows, rows[:1].expand(max(0, INVARIANT_ROWS - rows.numel()))])


def linear_torch(multiply: Callable[..., Any]) -> MultiplyOne:
    """One expert's matmul by the torch backend of a linear layer's, unrounded."""

    def multiply_one(
        a: torch.Tensor,
        weight: torch.Tensor,
        a_scale: torch.Tensor | None,
        weight_scale: torch.Tensor | None,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        out: torch.Tensor = multiply(a, weight.t(), a_scale, weight_scale, torch.float32, bias)
        return out

    return multiply_one
