"""The query, key and value projections of an attention layer as one matmul."""

from __future__ import annotations

from typing import Any

from layers.linear.base import LinearBase
from layers.linear.heads import split_heads
from layers.linear.tensor_parallel import TensorParallel
from layers.sharding import LinearLayout, Span


class QKVParallelLinear(LinearBase):
    """Heads divided over the ranks; each returns its [q, k, v]: (num_heads + 2 num_kv_heads) heads.

    Shard ids are "q", "k" and "v". Where there are more ranks than key-value heads, each such head
    is held by several neighbouring ranks.

    Args:
        hidden_size: K.
        head_size: outputs of one head.
        total_num_heads: query heads over all ranks.
        total_num_kv_heads: key-value heads over all ranks, which divide the query heads; None is as
            many as query heads.
        tp_rank, tp_size: None takes those of the parallel state.
        options: bias, params_dtype, quant_config, device; see `LinearBase`.

    Raises:
        ValueError: fewer than one head, or heads and ranks do not divide.
    """

    def __init__(
        self,
        hidden_size: int,
        head_size: int,
        total_num_heads: int,
        total_num_kv_heads: int | None = None,
        *,
        tp_rank: int | None = None,
        tp_size: int | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        tp = TensorParallel.resolve(prefix, tp_rank, tp_size)
        if total_num_kv_heads is None:
            total_num_kv_heads = total_num_heads
        q_heads, kv_heads = split_heads(prefix, tp, head_size, total_num_heads, total_num_kv_heads)
        q_rows, kv_rows = _scaled(q_heads, head_size), _scaled(kv_heads, head_size)
        spans = [("q", q_rows), ("k", kv_rows), ("v", kv_rows)]
        layout = LinearLayout.stacked(prefix, spans, Span.whole(hidden_size))
        super().__init__(layout, prefix=prefix, **options)
        self.hidden_size = hidden_size
        self.head_size = head_size
        self.num_heads = q_heads.size
        self.num_kv_heads = kv_heads.size


def _scaled(heads: Span, head_size: int) -> Span:
    return Span(heads.total * head_size, heads.start * head_size, heads.size * head_size)
