"""What `layers.attention.mla.layer` refuses, before any kernel runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from layers.attention.forward_checks import check_kind, check_pages, check_tensors
from layers.attention.metadata import AttentionMetadata
from layers.attention.mla.kv_cache import MLAKVCache
from layers.rotary.embedding import RotaryEmbedding
from layers.sharding import check_integers

if TYPE_CHECKING:
    from layers.attention.mla.layer import MLAAttention

DTYPES = (torch.float16, torch.bfloat16)
PATHS = ("auto", "absorbed")


def check_options(
    layer: str,
    sizes: dict[str, int],
    params_dtype: torch.dtype,
    scaling: float | None,
    rotary: RotaryEmbedding | None,
    path: str,
) -> None:
    """Refuses options that no layer could follow.

    Raises:
        ValueError: naming layer, option and value.
    """
    check_integers(layer, **sizes)
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"layer '{layer}': {name} is {size}, wanted at least 1.")
    if params_dtype not in DTYPES:
        raise ValueError(
            f"layer '{layer}': params_dtype is {params_dtype!r}, wanted torch.float16 or "
            f"torch.bfloat16 (the dtype of q, kv_c, k_pe and the output)."
        )
    if scaling is not None and not math.isfinite(scaling):
        raise ValueError(f"layer '{layer}': scaling is {scaling!r}, wanted a number or None.")
    if path not in PATHS:
        raise ValueError(f"layer '{layer}': path is {path!r}, wanted 'auto' or 'absorbed'.")
    if rotary is not None and not isinstance(rotary, RotaryEmbedding):
        raise ValueError(
            f"layer '{layer}': rotary is a {type(rotary).__name__}, wanted a RotaryEmbedding, or "
            f"None where q and k_pe come rotated."
        )
    rope = sizes["qk_rope_head_dim"]
    if rotary is not None and rotary.rotary_dim != rope:
        raise ValueError(
            f"layer '{layer}': the rotary embedding turns {rotary.rotary_dim} values, wanted "
            f"qk_rope_head_dim, {rope}."
        )


def check_input(
    layer: MLAAttention,
    q: torch.Tensor,
    kv_c: torch.Tensor,
    k_pe: torch.Tensor,
    positions: torch.Tensor,
    cache: MLAKVCache,
    metadata: AttentionMetadata,
) -> None:
    """Refuses what does not fit the layer or each other. Reads no values, so nothing waits.

    Raises:
        RuntimeError: the layer is not ready.
        ValueError: tensors of another shape, dtype or device; a cache or a batch of other sizes.
    """
    check_ready(layer)
    spec, tokens = layer.spec, metadata.num_tokens
    shapes = (
        ("q", q, (tokens, spec.num_heads, spec.qk_head_dim)),
        ("kv_c", kv_c, (tokens, spec.kv_lora_rank)),
        ("k_pe", k_pe, (tokens, spec.qk_rope_head_dim)),
    )
    check_tensors(layer.prefix, layer.device, spec.dtype, shapes)
    whole = positions.dtype in (torch.int32, torch.int64)
    if tuple(positions.shape) != (tokens,) or not whole or positions.device != layer.device:
        raise ValueError(
            f"layer '{layer.prefix}': positions are {tuple(positions.shape)} {positions.dtype} on "
            f"{positions.device}, wanted ({tokens},) torch.int64 on {layer.device}."
        )
    check_kind(layer.prefix, cache, MLAKVCache)
    seen = (cache.kv_lora_rank, cache.qk_rope_head_dim)
    wanted = (spec.kv_lora_rank, spec.qk_rope_head_dim)
    if seen != wanted:
        raise ValueError(
            f"layer '{layer.prefix}': the cache has (kv_lora_rank, qk_rope_head_dim) {seen}, "
            f"wanted {wanted}. Make it with the layer's sizes."
        )
    check_pages(layer.prefix, layer.device, cache, metadata)


def check_ready(layer: MLAAttention) -> None:
    """Refuses a layer whose weights are not in place.

    Raises:
        RuntimeError: saying what to call.
    """
    if not layer.is_ready:
        raise RuntimeError(
            f"layer '{layer.prefix}' is not ready for forward: load its weights, then call "
            f"layers.weights.process_weights_after_loading() for the whole layer, as it multiplies "
            f"by parts of kv_b_proj's weight."
        )
