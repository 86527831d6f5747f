"""What `layers.attention.layer` refuses, before any kernel runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from layers.attention.kv_cache import PagedKVCache
from layers.attention.metadata import AttentionMetadata
from layers.sharding import check_integers

if TYPE_CHECKING:
    from layers.attention.layer import Attention
    from layers.kernels.attention.problem import AttentionSpec

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
    for name, tensor, shape in shapes:
        seen: Any = tuple(tensor.shape)
        if seen != shape or tensor.dtype != spec.dtype or tensor.device != layer.device:
            raise ValueError(
                f"layer '{layer.prefix}': {name} is {seen} {tensor.dtype} on {tensor.device}, "
                f"wanted {shape} {spec.dtype} on {layer.device} (tokens of the batch, heads of "
                f"this rank, head size)."
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"layer '{layer.prefix}': {name} requires a gradient, which attention to a cache "
                f"does not have: call the layer under torch.no_grad(), or with {name}.detach()."
            )
    _check_cache(layer.prefix, spec, layer.device, cache)
    if metadata.page_size != cache.page_size:
        raise ValueError(
            f"layer '{layer.prefix}': the metadata has pages of {metadata.page_size} tokens, the "
            f"cache of {cache.page_size}. Make the metadata with the cache's page_size."
        )
    if metadata.page_table.device != layer.device:
        raise ValueError(
            f"layer '{layer.prefix}': the metadata is on {metadata.page_table.device}, wanted "
            f"{layer.device}. Make it with a page table there."
        )


def _check_cache(
    layer: str, spec: AttentionSpec, device: torch.device, cache: PagedKVCache
) -> None:
    if not isinstance(cache, PagedKVCache):
        raise ValueError(
            f"layer '{layer}': the cache is a {type(cache).__name__}, wanted a PagedKVCache."
        )
    seen = (cache.num_kv_heads, cache.head_dim, cache.v_head_dim)
    wanted = (spec.num_kv_heads, spec.head_dim, spec.v_head_dim)
    if seen != wanted:
        raise ValueError(
            f"layer '{layer}': the cache has (key-value heads, head_dim, v_head_dim) {seen}, "
            f"wanted {wanted}. Make it with the layer's num_kv_heads, which are this rank's."
        )
    if cache.device != device:
        raise ValueError(f"layer '{layer}': the cache is on {cache.device}, wanted {device}.")
