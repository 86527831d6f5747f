"""What `layers.attention.layer` refuses, before any kernel runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from layers.attention.forward_checks import check_kind, check_pages, check_tensors
from layers.attention.kv_cache import PagedKVCache
from layers.attention.metadata import AttentionMetadata
from layers.sharding import check_integers

if TYPE_CHECKING:
    from layers.attention.layer import Attention

DTYPES = (torch.float16, torch.bfloat16)


def check_options(
    layer: str,
    params_dtype: torch.dtype,
    scaling: float | None,
    sliding_window: int | None,
    logit_soft_cap: float,
) -> None:
    """Refuses options that no attention could follow.

    Raises:
        ValueError: naming layer, option and value.
    """
    if params_dtype not in DTYPES:
        raise ValueError(
            f"layer '{layer}': params_dtype is {params_dtype!r}, wanted torch.float16 or "
            f"torch.bfloat16 (the dtype of q, k, v and the output)."
        )
    if scaling is not None and not math.isfinite(scaling):
        raise ValueError(f"layer '{layer}': scaling is {scaling!r}, wanted a number or None.")
    if sliding_window is not None:
        check_integers(layer, sliding_window=sliding_window)
        if sliding_window < 1:
            raise ValueError(
                f"layer '{layer}': sliding_window is {sliding_window}, wanted at least 1 key (the "
                f"query's own), or None for all."
            )
    if not 0 <= logit_soft_cap < math.inf:
        raise ValueError(
            f"layer '{layer}': logit_soft_cap is {logit_soft_cap!r}, wanted a positive number, or "
            f"0 for none."
        )


def check_input(
    layer: Attention,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: PagedKVCache,
    metadata: AttentionMetadata,
) -> None:
    """Refuses what does not fit the layer or each other. Reads no values, so nothing waits.

    Raises:
        RuntimeError: the layer is not ready.
        ValueError: tensors of another shape, dtype or device; a cache or a batch of other sizes.
    """
    layer.check_ready()
    spec = layer.spec
    shapes = (
        ("q", q, (metadata.num_tokens, spec.num_heads, spec.head_dim)),
        ("k", k, (metadata.num_tokens, spec.num_kv_heads, spec.head_dim)),
        ("v", v, (metadata.num_tokens, spec.num_kv_heads, spec.v_head_dim)),
    )
    check_tensors(layer.prefix, layer.device, spec.dtype, shapes)
    check_kind(layer.prefix, cache, PagedKVCache)
    seen = (cache.num_kv_heads, cache.head_dim, cache.v_head_dim)
    wanted = (spec.num_kv_heads, spec.head_dim, spec.v_head_dim)
    if seen != wanted:
        raise ValueError(
            f"layer '{layer.prefix}': the cache has (key-value heads, head_dim, v_head_dim) "
            f"{seen}, wanted {wanted}. Make it with the layer's num_kv_heads, those of this rank."
        )
    check_pages(layer.prefix, layer.device, cache, metadata)
