"""Several column-parallel layers of one input, such as gate and up, as one matmul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from layers.distributed.communication import tensor_parallel_all_gather
from layers.linear.base import LinearBase
from layers.linear.tensor_parallel import TensorParallel
from layers.sharding import LinearLayout, Span


class MergedColumnParallelLinear(LinearBase):
    """The outputs of each shard, divided over the ranks, side by side.

    Shard ids are indices into `output_sizes`. A rank holds its part of every shard, in order.

    Args:
        input_size: K.
        output_sizes: N of each shard, over all ranks.
        gather_output: join the ranks' outputs shard by shard: every rank returns [gate, up], whole.
        tp_rank, tp_size: None takes those of the parallel state.
        options: bias, params_dtype, quant_config, device; see `LinearBase`.

    Raises:
        ValueError: a shard does not divide evenly, or there is none.
    """

    def __init__(
        self,
        input_size: int,
        output_sizes: Sequence[int],
        *,
        gather_output: bool = False,
        tp_rank: int | None = None,
        tp_size: int | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        if isinstance(output_sizes, str) or not isinstance(output_sizes, Sequence):
            raise ValueError(
                f"layer '{prefix}': output_sizes is {output_sizes!r}, wanted a list of one size a "
                f"shard, such as [1024, 1024]."
            )
        if not output_sizes:
            raise ValueError(
                f"layer '{prefix}': output_sizes is empty, wanted one size a shard, such as "
                f"[1024, 1024]."
            )
        tp = TensorParallel.resolve(prefix, tp_rank, tp_size)
        if gather_output:
            tp.require_group(prefix, "gather_output")
        spans = [
            (index, tp.split(prefix, f"output size of shard {index},", size))
            for index, size in enumerate(output_sizes)
        ]
        layout = LinearLayout.stacked(prefix, spans, Span.whole(input_size))
        super().__init__(layout, prefix=prefix, **options)
        self.input_size = input_size
        self.output_sizes = tuple(output_sizes)
        self.gather_output = gather_output
        self.tp_size = tp.size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, K) -> (…, sum of sizes / tensor parallel size), or whole with gather_output."""
        y = super().forward(x)
        return self._gather(y) if self.gather_output and self.tp_size > 1 else y

    def _gather(self, y: torch.Tensor) -> torch.Tensor:
        # The gathered columns come rank by rank, each with its part of every shard.
        by_rank = tensor_parallel_all_gather(y).unflatten(-1, (self.tp_size, -1))
        sizes = [shard.rows.size for shard in self.layout.shards]
        return torch.cat([part.flatten(-2) for part in by_rank.split(sizes, dim=-1)], dim=-1)
