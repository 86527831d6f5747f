"""A linear layer whose outputs (rows of the weight) are divided over the ranks."""

from __future__ import annotations

from typing import Any

import torch

from layers.distributed.communication import tensor_parallel_all_gather
from layers.linear.base import LinearBase
from layers.linear.tensor_parallel import TensorParallel
from layers.sharding import LinearLayout, Span


class ColumnParallelLinear(LinearBase):
    """y = x Wᵀ + b, each rank computing N / tensor parallel size of the outputs.

    Args:
        input_size, output_size: K and N of the whole layer.
        gather_output: join the ranks' outputs, so that every rank returns all N.
        tp_rank, tp_size: None takes those of the parallel state.
        options: bias, params_dtype, quant_config, device; see `LinearBase`.

    Raises:
        ValueError: N does not divide evenly.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        gather_output: bool = False,
        tp_rank: int | None = None,
        tp_size: int | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        tp = TensorParallel.resolve(prefix, tp_rank, tp_size)
        if gather_output:
            tp.require_group(prefix, "gather_output")
        rows = tp.split(prefix, "output size", output_size)
        layout = LinearLayout.stacked(prefix, [(None, rows)], Span.whole(input_size))
        super().__init__(layout, prefix=prefix, **options)
        self.input_size = input_size
        self.output_size = output_size
        self.gather_output = gather_output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, K) -> (…, N / tensor parallel size), or (…, N) with gather_output."""
        y = super().forward(x)
        return tensor_parallel_all_gather(y) if self.gather_output else y
