"""How the heads of an attention layer divide over the ranks."""

from __future__ import annotations

from layers.linear.tensor_parallel import TensorParallel
from layers.sharding import Span, check_integers


def split_heads(
    prefix: str, tp: TensorParallel, head_size: int, q_heads: int, kv_heads: int
) -> tuple[Span, Span]:
    """This rank's query heads and key-value heads.

    Where there are more ranks than key-value heads, each such head is held by several neighbouring
    ranks.

    Args:
        prefix: the layer's name, for messages.
        tp: the rank, and how many there are.
        head_size: of a head, which is only checked.
        q_heads, kv_heads: over all ranks.

    Raises:
        ValueError: fewer than one head, or heads and ranks do not divide.
    """
    check_integers(prefix, head_size=head_size, query_heads=q_heads, key_value_heads=kv_heads)
    if min(head_size, q_heads, kv_heads) < 1:
        raise ValueError(
            f"layer '{prefix}': {q_heads} query heads and {kv_heads} key-value heads of size "
            f"{head_size}, wanted at least 1 of each. Correct the model's configuration."
        )
    if q_heads % kv_heads:
        raise ValueError(
            f"layer '{prefix}': {q_heads} query heads cannot share {kv_heads} key-value heads "
            f"evenly. Use a number of query heads that is a multiple of {kv_heads}."
        )
    return tp.split(prefix, "number of query heads", q_heads), _kv_heads(prefix, kv_heads, tp)


def _kv_heads(prefix: str, total: int, tp: TensorParallel) -> Span:
    if tp.size <= total:
        return tp.split(prefix, "number of key-value heads", total)
    if tp.size % total:
        raise ValueError(
            f"layer '{prefix}': {total} key-value heads cannot be replicated evenly over "
            f"{tp.size} ranks. Use a tensor parallel size that is a multiple of {total}."
        )
    ranks_per_head = tp.size // total
    return Span(total, tp.rank // ranks_per_head, 1)
