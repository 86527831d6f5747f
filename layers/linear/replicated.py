"""A linear layer that every rank holds whole."""

from __future__ import annotations

from typing import Any

from layers.linear.base import LinearBase
from layers.sharding import LinearLayout, Span


class ReplicatedLinear(LinearBase):
    """y = x Wᵀ + b on every rank alike.

    Args:
        input_size, output_size: K and N.
        options: bias, params_dtype, quant_config, device; see `LinearBase`.
    """

    def __init__(
        self, input_size: int, output_size: int, *, prefix: str = "", **options: Any
    ) -> None:
        rows = Span.whole(output_size)
        layout = LinearLayout.stacked(prefix, [(None, rows)], Span.whole(input_size))
        super().__init__(layout, prefix=prefix, **options)
        self.input_size = input_size
        self.output_size = output_size
