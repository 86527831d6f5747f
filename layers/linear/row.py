"""A linear layer whose inputs (columns of the weight) are divided over the ranks."""

from __future__ import annotations

from typing import Any

import torch

from layers.distributed.communication import tensor_parallel_all_reduce
from layers.linear.base import LinearBase
from layers.linear.tensor_parallel import TensorParallel
from layers.sharding import LinearLayout, Span


class RowParallelLinear(LinearBase):
    """y = x Wᵀ + b, each rank multiplying K / tensor parallel size columns; the ranks' sums add up.

    Args:
        input_size, output_size: K and N of the whole layer.
        input_is_parallel: x is this rank's part of the inputs already, as a column-parallel layer
            leaves it; otherwise x is whole and the part is taken here.
        reduce_results: sum over the ranks. Without it each rank returns its partial sum; rank 0's
            holds the bias, so that the sum of all is the layer's output.
        tp_rank, tp_size: None takes those of the parallel state.
        options: bias, params_dtype, quant_config, device; see `LinearBase`.

    Raises:
        ValueError: K does not divide evenly.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        input_is_parallel: bool = True,
        reduce_results: bool = True,
        tp_rank: int | None = None,
        tp_size: int | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        tp = TensorParallel.resolve(prefix, tp_rank, tp_size)
        if reduce_results:
            tp.require_group(prefix, "reduce_results")
        columns = tp.split(prefix, "input size", input_size)
        layout = LinearLayout.stacked(prefix, [(None, Span.whole(output_size))], columns)
        super().__init__(layout, prefix=prefix, **options)
        self.input_size = input_size
        self.output_size = output_size
        self.input_is_parallel = input_is_parallel
        self.reduce_results = reduce_results
        self.tp_rank = tp.rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, K / tensor parallel size), or (…, K) if not input_is_parallel -> (…, N).

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: x of another width, dtype or device.
        """
        columns = self.layout.inputs
        if self.input_is_parallel:
            self._check_input(x, columns.size)
        else:
            self._check_input(x, self.input_size)
            x = x.narrow(-1, columns.start, columns.size)
        # The bias enters once, in the sum of one rank.
        y = self._multiply(x, self.bias if self.tp_rank == 0 else None)
        return tensor_parallel_all_reduce(y) if self.reduce_results else y
