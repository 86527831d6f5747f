"""What a faulty MLA layer does in a step: `change(original, *arguments)` of that step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Original: TypeAlias = Callable[..., Any]
Tensor: TypeAlias = torch.Tensor


def scaled(factor: float) -> Callable[..., Tensor]:
    """Logits times a factor."""

    def change(original: Original, q: Tensor, keys: Tensor, scaling: float) -> Tensor:
        logits: Tensor = original(q, keys, scaling * factor)
        return logits

    return change


def scale_of_latents(original: Original, q: Tensor, keys: Tensor, scaling: float) -> Tensor:
    """(R + rope)^-1/2."""
    logits: Tensor = original(q, keys, q.shape[-1] ** -0.5)
    return logits


def without_rope_part(rope: int) -> Callable[..., Tensor]:
    """Logits of latents alone."""

    def change(original: Original, q: Tensor, keys: Tensor, scaling: float) -> Tensor:
        logits: Tensor = original(q[..., :-rope], keys[..., :-rope], scaling)
        return logits

    return change


def one_ahead(original: Original, queries: int, keys: int, device: torch.device) -> Tensor:
    """A query sees one key more."""
    seen: Tensor = original(queries, keys, device)
    ahead = seen.clone()
    ahead[:, 1:] |= seen[:, :-1]
    return ahead


def own_unseen(original: Original, queries: int, keys: int, device: torch.device) -> Tensor:
    """A query sees one key less, if it sees two."""
    seen: Tensor = original(queries, keys, device)
    positions = torch.arange(keys - queries, keys, device=device)
    less = seen & (torch.arange(keys, device=device) != positions[:, None])
    return torch.where(seen.sum(1, keepdim=True) == 1, seen, less)


def all_seen(original: Original, queries: int, keys: int, device: torch.device) -> Tensor:
    """No mask."""
    return torch.ones_like(original(queries, keys, device))


def mask_ignored(original: Original, keys: int, mask: Tensor) -> Tensor:
    """Drafts see all drafts."""
    return torch.ones_like(original(keys, mask))


def chain_for_tree(original: Original, keys: int, mask: Tensor) -> Tensor:
    """Drafts see all drafts before them."""
    seen: Tensor = original(keys, torch.tril(torch.ones_like(mask)))
    return seen


def pages_swapped(original: Original, metadata: Any, request: int, keys: int) -> Tensor:
    """The first two pages of a request."""
    pages: Tensor = original(metadata, request, keys)
    pages = pages.clone()
    pages[:2] = pages[:2].flip(0)
    return pages


def pages_of_the_next(original: Original, metadata: Any, request: int, keys: int) -> Tensor:
    """Request 1 reads the first page of request 2."""
    pages: Tensor = original(metadata, request, keys)
    if request == 1:
        pages = pages.clone()
        pages[0] = metadata.page_table[2, 0]
    return pages


def page_past_the_last(original: Original, metadata: Any, request: int, keys: int) -> Tensor:
    """A request's last page is the one before page 1, which nobody owns."""
    pages: Tensor = original(metadata, request, keys)
    pages = pages.clone()
    pages[-1] = 0
    return pages


def whole_pages(original: Original, cache: Any, places: Tensor, keys: int) -> Tensor:
    """Slots past the length weigh nothing, but their NaN is added all the same."""
    rows: Tensor = original(cache, places, keys)
    past: Tensor = original(cache, places, len(places) * cache.page_size)[keys:]
    return rows + 0 * past.sum() if len(past) else rows


def scale_ignored(original: Original, cache: Any, places: Tensor, keys: int) -> Tensor:
    """Codes without their scale."""
    rows: Tensor = original(cache, places, keys)
    return rows / cache.scale


def halved_probabilities(original: Original, weights: Tensor, values: Tensor) -> Tensor:
    """Probabilities in e5m2."""
    weighed: Tensor = original(weights.to(torch.float8_e5m2).float(), values)
    return weighed


def last_key_lost(original: Original, scores: Tensor, seen: Tensor) -> Tensor:
    """The softmax leaves out the last key of the request."""
    less = seen.clone()
    less[:, -1] = False
    weights: Tensor = original(scores, torch.where(less.any(1, keepdim=True), less, seen))
    return weights


def other_style(layer: Any) -> None:
    """neox pairs."""
    layer.rotary.style = "neox"


def positions_by_one(original: Original, positions: Tensor, *parts: Tensor) -> Any:
    """Of queries and of keys."""
    return original(positions + 1, *parts)


def queries_unturned(original: Original, positions: Tensor, q: Tensor, k: Tensor) -> Any:
    """Only the keys are turned."""
    return q, original(positions, q, k)[1]


def keys_unturned(original: Original, positions: Tensor, q: Tensor, k: Tensor) -> Any:
    """Only the queries are turned."""
    return original(positions, q, k)[0], k


def halves_exchanged(original: Original, positions: Tensor, q: Tensor, k: Tensor) -> Any:
    """The second half of the rotary part is turned as the first."""
    q, k = original(positions, q.roll(q.shape[-1] // 2, -1), k.roll(k.shape[-1] // 2, -1))
    return q.roll(-(q.shape[-1] // 2), -1), k.roll(-(k.shape[-1] // 2), -1)


def front_turned(rope: int) -> Callable[..., Tensor]:
    """q's rotary part is taken for its first values."""

    def change(original: Original, q: Tensor, *rest: Any) -> Tensor:
        output: Tensor = original(q.roll(-rope, -1), *rest)
        return output

    return change


def q_overwritten(original: Original, q: Tensor, *rest: Any) -> Tensor:
    """The queries are scaled in place."""
    output: Tensor = original(q, *rest)
    q.mul_(0.5)
    return output


def cached_unturned(layer: Any) -> None:
    """The cache gets k_pe as it came."""
    kept: list[Tensor] = []
    rotate, write = layer.rotate, layer.write_cache

    def turn(positions: Tensor, q: Tensor, k: Tensor) -> Any:
        kept[:] = [k]
        return rotate(positions, q, k)

    layer.rotate = turn
    layer.write_cache = lambda cache, slots, kv_c, k_pe: write(cache, slots, kv_c, kept[0])


def slot_late(original: Original, cache: Any, slots: Tensor, *parts: Tensor) -> None:
    """A slot too late."""
    original(cache, slots + 1, *parts)


def last_unwritten(original: Original, cache: Any, slots: Tensor, *parts: Tensor) -> None:
    """The call's last token is not written."""
    original(cache, slots[:-1], *(part[:-1] for part in parts))


def written_twice(original: Original, cache: Any, slots: Tensor, *parts: Tensor) -> None:
    """The first token is written into the first slot of the pool as well."""
    original(cache, slots, *parts)
    original(cache, torch.zeros_like(slots[:1]), *(part[:1] for part in parts))


def rotated_key_first(
    original: Original, cache: Any, slots: Tensor, kv_c: Tensor, k_pe: Tensor
) -> None:
    """[k_pe | kv_c]."""
    original(cache, slots, torch.cat([k_pe, kv_c], 1), kv_c[:, :0])


def values_of_the_next_head(layer: Any) -> None:
    """W_UV."""
    layer.w_vc.data.copy_(layer.w_vc.data.roll(-1, 0))


def keys_of_the_next_head(layer: Any) -> None:
    """W_UK."""
    layer.w_kc.data.copy_(layer.w_kc.data.roll(-1, 0))


def one_head_of_another(layer: Any) -> None:
    """Head 2 has W_UV of head 3."""
    layer.w_vc.data[2] = layer.w_vc.data[3]


def keys_transposed(layer: Any) -> None:
    """W_UK of each head, square."""
    layer.w_kc.data.copy_(layer.w_kc.data.transpose(1, 2).clone())


def keys_and_values_swapped(weight: Tensor, spec: Any) -> Tensor:
    """A head's rows are its values', then its keys'; nope equals v."""
    return weight.view(spec.num_heads, 2, -1, weight.shape[1]).flip(1).reshape(weight.shape)


def keys_of_all_heads_first(weight: Tensor, spec: Any) -> Tensor:
    """The checkpoint is taken to hold all keys, then all values."""
    keys, values = weight.split(
        [spec.num_heads * spec.qk_nope_head_dim, spec.num_heads * spec.v_head_dim]
    )
    heads = (part.view(spec.num_heads, -1, weight.shape[1]) for part in (keys, values))
    return torch.cat(tuple(heads), 1).reshape(weight.shape)


def one_percent(weight: Tensor, spec: Any) -> Tensor:
    """A scale of post-load that is off by 1 %."""
    return weight * 1.01


def one_row(weight: Tensor, spec: Any) -> Tensor:
    """The scale of one row is its neighbour's: the first of head 1's values."""
    row = spec.qk_nope_head_dim + spec.v_head_dim + spec.qk_nope_head_dim
    changed = weight.clone()
    changed[row] *= weight[row + 1].abs().max() / weight[row].abs().max()
    return changed


def one_block(weight: Tensor, spec: Any) -> Tensor:
    """The last block of R has the scale of the one before."""
    changed = weight.clone()
    changed[:, -128:] *= 0.7
    return changed


def unscaled(original: Original, q: Tensor, keys: Tensor, scaling: float) -> Tensor:
    """Logits as they are."""
    logits: Tensor = original(q, keys, 1.0)
    return logits
